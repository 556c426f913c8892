#include "cli/usage.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <numeric>
#include <span>
#include <string_view>
#include <system_error>
#include <vector>

#include "report/text/text_format.h"

namespace gpumemprof::cli {
namespace {

Error usage(std::string message, std::string hint) {
  return {ErrorCode::usage, std::move(message), "", std::move(hint)};
}

std::vector<std::string> verb_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(verb->get_name());
  return names;
}

std::string all_verbs(const CLI::App& app) {
  std::string verbs;
  for (const std::string& name : verb_names(app)) verbs += (verbs.empty() ? "" : ", ") + name;
  return "the commands are " + verbs;
}

// How many letters to insert, drop, replace or swap with their neighbour to turn `a` into `b`.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> rows(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  std::iota(rows[0].begin(), rows[0].end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    rows[i][0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = rows[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      rows[i][j] = std::min({replaced, rows[i - 1][j] + 1, rows[i][j - 1] + 1});
      const bool is_swap = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (is_swap) rows[i][j] = std::min(rows[i][j], rows[i - 2][j - 2] + 1);
    }
  }
  return rows[a.size()][b.size()];
}

// The name that `word` was probably meant to be: at most a third of its letters are wrong, or it is
// the only name that starts with it.
std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& names) {
  constexpr std::size_t kLongest = 40;  // longer words are not typos
  if (word.size() > kLongest) return std::nullopt;
  const std::string* best = nullptr;
  const std::size_t letters = word.size() - std::min(word.size(), word.find_first_not_of('-'));
  std::size_t fewest = std::max<std::size_t>(1, letters / 3) + 1;
  for (const std::string& name : names) {
    const std::size_t wrong = distance(word, name);
    if (wrong >= fewest) continue;
    fewest = wrong;
    best = &name;
  }
  if (best != nullptr) return *best;
  const auto begins_so = [&](const std::string& name) { return name.starts_with(word); };
  if (word.size() < 3 || std::ranges::count_if(names, begins_so) != 1) return std::nullopt;
  return *std::ranges::find_if(names, begins_so);
}

std::vector<std::string> flag_names(const CLI::App& verb) {
  std::vector<std::string> names;
  for (const CLI::Option* option : verb.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

std::string see_help(const CLI::App& verb) {
  return "see gpumemprof " + verb.get_name() + " --help";
}

// "FILE" for a positional, "--to FORMAT" for an option, "--json" for a flag.
std::string how_to_say(const CLI::Option& option) {
  if (option.get_positional()) return option.get_type_name();
  const std::string value = option.get_expected_max() == 0 ? "" : " " + option.get_type_name();
  return option.get_name() + value;
}

// CLI11 names the option only in its message. Of names that contain each other the longest counts.
const CLI::Option* named_option(const CLI::App& verb, std::string_view message) {
  const CLI::Option* named = nullptr;
  for (const CLI::Option* option : verb.get_options()) {
    const std::string name = option->get_name();
    const bool is_better = named == nullptr || name.size() > named->get_name().size();
    if (is_better && message.find(name) != std::string_view::npos) named = option;
  }
  return named;
}

std::optional<Error> what_is_unexpected(const CLI::App& verb, const std::vector<std::string>& words,
                                        const std::string& hint) {
  if (words.empty()) return std::nullopt;
  const auto flag =
      std::ranges::find_if(words, [](const std::string& word) { return word.starts_with('-'); });
  if (flag != words.end())
    return unknown_name("flag", flag->substr(0, flag->find('=')), flag_names(verb), hint);
  return usage("unexpected argument '" + words.front() + "'", hint);
}

std::optional<std::string> what_is_missing(const CLI::App& verb) {
  std::string missing;
  for (const CLI::Option* option : verb.get_options()) {
    if (!option->get_required() || option->count() > 0) continue;
    missing += (missing.empty() ? "" : " and ") + how_to_say(*option);
  }
  if (missing.empty()) return std::nullopt;
  return verb.get_name() + " needs " + missing;
}

std::string what_is_wrong_with(const CLI::Option& option) {
  const std::string name = option.get_name();
  if (option.get_expected_max() == 0) return name + " takes no value";
  if (option.count() > 1) return name + " can be given only once";
  return name + " needs a value: " + how_to_say(option);
}

// A user who types a file first wants a report of it, or to run it if it is a program.
std::optional<std::string> verb_for_file(const std::string& word) {
  if (word.ends_with(".py")) return "run";
  for (const std::string_view ending : {".gmp", ".pickle", ".pkl", ".gz"}) {
    if (word.ends_with(ending)) return "report";
  }
  std::error_code ignored;
  if (std::filesystem::is_regular_file(word, ignored)) return "report";
  return std::nullopt;
}

}  // namespace

Error unknown_name(const std::string& what, const std::string& word,
                   const std::vector<std::string>& names, const std::string& hint) {
  const std::string message = "unknown " + what + " '" + word + "'";
  if (const auto name = nearest(word, names))
    return usage(message + ", did you mean '" + *name + "'?", "");
  return usage(message, hint);
}

std::optional<Error> unknown_verb(const CLI::App& app, int argc, const char* const* argv) {
  if (argc < 2 || argv[1][0] == '-') return std::nullopt;
  const auto verbs =
      app.get_subcommands([&](const CLI::App* verb) { return verb->get_name() == argv[1]; });
  if (!verbs.empty()) return std::nullopt;
  const std::string word = argv[1];
  if (const std::optional<std::string> verb = verb_for_file(word))
    return usage("'" + word + "' is a file, not a command",
                 "type gpumemprof " + *verb + " " + text::quoted(word));
  return unknown_name("command", word, verb_names(app), all_verbs(app));
}

std::optional<Error> flag_with_value(const CLI::App& app, int argc, const char* const* argv) {
  const auto verbs = app.get_subcommands(
      [&](const CLI::App* verb) { return argc > 1 && verb->get_name() == argv[1]; });
  if (verbs.empty() || verbs.front()->get_prefix_command()) return std::nullopt;
  const CLI::App& verb = *verbs.front();
  for (const std::string_view word : std::span(argv, static_cast<std::size_t>(argc)).subspan(2)) {
    if (word == "--") break;
    const CLI::Option* option =
        word.starts_with("--") && word.find('=') != std::string_view::npos
            ? verb.get_option_no_throw(std::string(word.substr(0, word.find('='))))
            : nullptr;
    if (option != nullptr && option->get_expected_max() == 0)
      return usage(what_is_wrong_with(*option), see_help(verb));
  }
  return std::nullopt;
}

Error usage_error(const CLI::App& app, const CLI::ParseError& mistake) {
  const auto verbs = app.get_subcommands();
  if (verbs.empty()) {
    return what_is_unexpected(app, app.remaining(true), all_verbs(app))
        .value_or(usage("a command is missing", all_verbs(app)));
  }
  const CLI::App& verb = *verbs.front();
  const std::string hint = see_help(verb);
  if (const auto unexpected = what_is_unexpected(verb, app.remaining(true), hint))
    return *unexpected;
  if (dynamic_cast<const CLI::RequiredError*>(&mistake) != nullptr) {
    if (const auto missing = what_is_missing(verb)) return usage(*missing, hint);
  }
  if (const CLI::Option* option = named_option(verb, mistake.what()))
    return usage(what_is_wrong_with(*option), hint);
  return usage(verb.get_name() + " cannot be used with these arguments", hint);
}

}  // namespace gpumemprof::cli
