#include "cli/python_verbs.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <span>
#include <string_view>
#include <system_error>
#include <vector>

namespace gpumemprof::cli {
namespace {

using Words = std::span<const std::string_view>;

// Without those of a program that is to be run.
Words our_words(Words words) { return {words.begin(), std::ranges::find(words, "--")}; }

bool asks_for_help(Words words) {
  return std::ranges::any_of(
      our_words(words), [](std::string_view word) { return word == "-h" || word == "--help"; });
}

bool is_verification(Words words) {
  return std::ranges::any_of(our_words(words), [](std::string_view word) {
    return word == "--verify" || word.starts_with("--verify=");
  });
}

// A folder of chapters is one recording, which is read here.
bool is_recording_folder(const std::filesystem::path& folder) {
  if (folder.extension() == ".gmp") return true;
  std::error_code failed;
  for (std::filesystem::directory_iterator entry(folder, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    const std::filesystem::path name = entry->path().filename();
    if (name.string().starts_with("chapter-") && name.extension() == ".gmp") return true;
  }
  return false;
}

std::optional<std::string> named_folder(Words words) {
  std::vector<std::string> names;
  for (const std::string_view word : words) {
    if (!word.starts_with('-')) names.emplace_back(word);
  }
  std::error_code unknown;
  if (names.size() != 1 || !std::filesystem::is_directory(names[0], unknown)) return std::nullopt;
  return names[0];
}

}  // namespace

Error needs_package(const std::string& what, const std::string& command) {
  const std::string next =
      "install that with pip, from a wheel of gpumemprof or from its sources, ";
  return {ErrorCode::environment,
          what + " needs the Python package, which this command does not include", "",
          next + "then type python -m gpumemprof " + command};
}

namespace {

// `arguments` is what usually follows its name: "SCRIPT".
VerbAction python_verb(CLI::App& verb, const std::string& arguments) {
  verb.prefix_command();
  const std::string command =
      verb.get_name() + (arguments.empty() ? std::string() : " " + arguments);
  const Error error = needs_package(verb.get_name(), command);
  verb.footer(
      "It is part of the Python package. Install that with pip, from a wheel of\n"
      "gpumemprof or from its sources; then\n  python -m gpumemprof " +
      verb.get_name() + " --help");
  return [error](const Environment&) { return fail(error); };
}

}  // namespace

VerbAction prepare_run(CLI::App& verb) { return python_verb(verb, "SCRIPT"); }
VerbAction prepare_estimate(CLI::App& verb) { return python_verb(verb, "SCRIPT"); }
VerbAction prepare_live(CLI::App& verb) { return python_verb(verb, "FILE"); }
VerbAction prepare_ranks(CLI::App& verb) { return python_verb(verb, "FOLDER"); }
VerbAction prepare_export(CLI::App& verb) { return python_verb(verb, "--to parquet OUT FILE"); }
VerbAction prepare_calibrate(CLI::App& verb) { return python_verb(verb, ""); }

std::optional<Error> use_of_python(int argc, const char* const* argv) {
  const std::vector<std::string_view> all(argv, argv + argc);
  if (all.size() < 3) return std::nullopt;
  const Words words = Words(all).subspan(2);
  if (asks_for_help(words)) return std::nullopt;
  if (all[1] == "advise" && is_verification(words))
    return needs_package("advise --verify", "advise --verify REMEDY -- SCRIPT");
  const bool is_view = all[1] == "view";
  if (all[1] != "report" && !is_view) return std::nullopt;
  const std::optional<std::string> folder = named_folder(words);
  if (!folder || is_recording_folder(*folder)) return std::nullopt;
  return needs_package("comparing the ranks in a folder", (is_view ? "view " : "ranks ") + *folder);
}

}  // namespace gpumemprof::cli
