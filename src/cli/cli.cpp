#include "cli/cli.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "cli/help.h"
#include "cli/python_verbs.h"
#include "cli/terminal.h"
#include "cli/usage.h"
#include "cli/verb.h"

namespace gpumemprof::cli {
namespace {

// CLI11 reports --help and --version as errors too.
int explain(const CLI::App& app, const CLI::ParseError& mistake) {
  std::ostringstream out;
  std::ostringstream unused;
  if (app.exit(mistake, out, unused) != 0) return fail(usage_error(app, mistake));
  print_out(out.str());
  return 0;
}

// The command line with what other commands have as words, "help leaks" and "version", as flags.
std::vector<const char*> with_flags(int argc, const char* const* argv) {
  std::vector<const char*> words(argv, argv + argc);
  const std::string_view first = argc > 1 ? argv[1] : "";
  if (first == "version") words[1] = "--version";
  if (first == "help") {
    words.erase(words.begin() + 1);
    words.resize(std::min<std::size_t>(words.size(), 2));
    words.push_back("--help");
  }
  return words;
}

int dispatch(int argc, const char* const* argv, const Environment& environment) {
  CLI::App app{"gpumemprof: where every byte of GPU memory goes in a PyTorch run", "gpumemprof"};
  app.set_version_flag("-V,--version", GPUMEMPROF_VERSION, "Print the version and exit");
  app.require_subcommand(1);
  app.formatter(std::make_shared<HelpFormatter>());  // before the verbs, which take it over
  std::map<std::string, VerbAction> actions;
  for (const Verb& verb : verbs())
    actions[verb.name] = verb.prepare(*app.add_subcommand(verb.name, verb.help));
  app.footer("Start with: gpumemprof demo");
  if (argc <= 1) {
    print_out(app.help());
    return exit_code(ErrorCode::usage);
  }
  // For those who install it.
  if (argc == 3 && std::string_view(argv[1]) == "help" && std::string_view(argv[2]) == "--man") {
    print_out(manual_page(app));
    return 0;
  }
  const std::vector<const char*> words = with_flags(argc, argv);
  argc = static_cast<int>(words.size());
  argv = words.data();
  if (const std::optional<Error> mistake = unknown_verb(app, argc, argv)) return fail(*mistake);
  if (!environment.is_in_package) {
    if (const std::optional<Error> missing = use_of_python(argc, argv)) return fail(*missing);
  }
  if (const std::optional<Error> mistake = flag_with_value(app, argc, argv)) return fail(*mistake);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return explain(app, error);
  }
  return actions.at(app.get_subcommands().front()->get_name())(environment);
}

}  // namespace

int main(int argc, const char* const* argv, const Environment& environment) {
  try {
    const int code = dispatch(argc, argv, environment);
    const std::string lost = lost_output();
    if (lost.empty()) return code;
    return fail({ErrorCode::environment, "the output could not be written (" + lost + ")",
                 "standard output", "free some space, or redirect the output elsewhere"});
  } catch (const std::exception& bug) {
    print_error(std::string("internal error, please report it together with the command line: ") +
                bug.what());
    return exit_code(ErrorCode::bug);
  }
}

}  // namespace gpumemprof::cli
