#include "cli/usage.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string_view>
#include <vector>

namespace gpumemprof::cli {
namespace {

Error usage(std::string message, std::string hint) {
  return {ErrorCode::usage, std::move(message), "", std::move(hint)};
}

std::string all_verbs(const CLI::App& app) {
  std::string verbs;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; }))
    verbs += (verbs.empty() ? "" : ", ") + verb->get_name();
  return verbs;
}

// "FILE" of a positional, "--to FORMAT" of an option, "--json" of a flag.
std::string how_to_say(const CLI::Option& option) {
  if (option.get_positional()) return option.get_type_name();
  const std::string value = option.get_expected_max() == 0 ? "" : " " + option.get_type_name();
  return option.get_name() + value;
}

// CLI11 names the option in its message alone. Of names that contain each other the longest counts.
const CLI::Option* named_option(const CLI::App& verb, std::string_view message) {
  const CLI::Option* named = nullptr;
  for (const CLI::Option* option : verb.get_options()) {
    const std::string name = option->get_name();
    const bool is_better = named == nullptr || name.size() > named->get_name().size();
    if (is_better && message.find(name) != std::string_view::npos) named = option;
  }
  return named;
}

std::optional<std::string> what_is_unexpected(const CLI::App& verb,
                                              const std::vector<std::string>& words) {
  if (words.empty()) return std::nullopt;
  const auto flag =
      std::ranges::find_if(words, [](const std::string& word) { return word.starts_with('-'); });
  if (flag != words.end()) return verb.get_name() + " has no flag '" + *flag + "'";
  return verb.get_name() + " has no use for '" + words.front() + "'";
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

}  // namespace

std::optional<Error> unknown_verb(const CLI::App& app, int argc, const char* const* argv) {
  if (argc < 2 || argv[1][0] == '-') return std::nullopt;
  const auto verbs =
      app.get_subcommands([&](const CLI::App* verb) { return verb->get_name() == argv[1]; });
  if (!verbs.empty()) return std::nullopt;
  return usage("there is no verb '" + std::string(argv[1]) + "'",
               "the verbs are " + all_verbs(app));
}

Error usage_error(const CLI::App& app, const CLI::ParseError& mistake) {
  const auto verbs = app.get_subcommands();
  if (verbs.empty()) {
    const std::optional<std::string> unexpected = what_is_unexpected(app, app.remaining(true));
    return usage(unexpected.value_or("a verb is missing"), "the verbs are " + all_verbs(app));
  }
  const CLI::App& verb = *verbs.front();
  const std::string hint = "see gpumemprof " + verb.get_name() + " --help";
  if (const auto unexpected = what_is_unexpected(verb, app.remaining(true)))
    return usage(*unexpected, hint);
  if (dynamic_cast<const CLI::RequiredError*>(&mistake) != nullptr) {
    if (const auto missing = what_is_missing(verb)) return usage(*missing, hint);
  }
  if (const CLI::Option* option = named_option(verb, mistake.what()))
    return usage(what_is_wrong_with(*option), hint);
  return usage(verb.get_name() + " cannot be called like this", hint);
}

}  // namespace gpumemprof::cli
