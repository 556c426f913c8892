#include "cli/help.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "report/text/text_format.h"

namespace gpumemprof::cli {
namespace {

constexpr std::size_t kHelpWidth = 80;
constexpr std::size_t kWidestFlags = 24;

using HelpRow = std::pair<std::string, std::string>;

bool is_flag(const CLI::Option& option) { return option.get_expected_max() == 0; }

// "FILE", "FILE..." if it takes several.
std::string value_of(const CLI::Option& option) {
  return option.get_type_name() + (option.get_expected_max() > 1 ? "..." : "");
}

// "-o, --output FILE".
std::string flags_of(const CLI::Option& option) {
  std::string flags;
  for (const std::string& name : option.get_snames()) flags += "-" + name + ", ";
  for (const std::string& name : option.get_lnames()) flags += "--" + name + ", ";
  flags.resize(flags.size() - 2);
  return is_flag(option) ? flags : flags + " " + option.get_type_name();
}

std::string section(const std::string& title, const std::vector<HelpRow>& rows) {
  if (rows.empty()) return "";
  std::size_t column = 0;
  for (const HelpRow& row : rows) {
    if (text::columns(row.first) <= kWidestFlags)
      column = std::max(column, text::columns(row.first) + 4);
  }
  std::string page = "\n" + title + ":\n";
  for (const auto& [flags, what] : rows) {
    const bool is_wide = text::columns(flags) > kWidestFlags;
    page +=
        is_wide ? "  " + flags + "\n" + std::string(column, ' ') : text::left("  " + flags, column);
    page += text::wrapped(what, kHelpWidth, column) + "\n";
  }
  return page;
}

// As it is, in the language of manual pages.
std::string verbatim(const std::string& text) {
  std::string page = ".nf\n";
  bool begins_line = true;
  for (const char letter : text) {
    if (begins_line && (letter == '.' || letter == '\'')) page += "\\&";
    begins_line = letter == '\n';
    if (letter == '\\') {
      page += "\\(rs";
    } else if (letter == '-') {
      page += "\\-";
    } else {
      page += letter;
    }
  }
  return page + ".fi\n";
}

}  // namespace

std::string manual_page(const CLI::App& app) {
  const std::string& about = app.get_description();
  std::string page = ".TH GPUMEMPROF 1 \"\" \"gpumemprof " GPUMEMPROF_VERSION
                     "\" \"User Commands\"\n.SH NAME\ngpumemprof \\- " +
                     about.substr(about.find(": ") + 2) + "\n.SH SYNOPSIS\n" +
                     verbatim("gpumemprof COMMAND [OPTIONS] ...\n") + ".SH COMMANDS\n";
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; }))
    page += ".SS " + verb->get_name() + "\n" + verbatim(verb->help("gpumemprof"));
  return page + ".SH SEE ALSO\n" +
         "A document about each command, in share/doc/gpumemprof/docs/cli of the installation.\n";
}

std::string HelpFormatter::make_help(const CLI::App* app, std::string name,
                                     CLI::AppFormatMode) const {
  std::string usage = "Usage: " + name + " [OPTIONS]";
  std::string values;
  std::vector<HelpRow> arguments;
  std::vector<HelpRow> options;
  for (const CLI::Option* option : app->get_options()) {
    if (option == app->get_help_ptr()) continue;
    if (option->get_positional()) {
      values += " " + value_of(*option);
      arguments.emplace_back(value_of(*option), option->get_description());
    } else {
      if (option->get_required()) usage += " " + flags_of(*option);
      options.emplace_back(flags_of(*option), option->get_description());
    }
  }
  if (const CLI::Option* help = app->get_help_ptr())
    options.emplace_back(flags_of(*help), "Print this help");
  std::vector<HelpRow> commands;
  for (const CLI::App* verb : app->get_subcommands([](const CLI::App*) { return true; }))
    commands.emplace_back(verb->get_name(), verb->get_description());
  if (!commands.empty()) values += " COMMAND";
  const std::string& title = app->get_description();
  const std::string about = title + (title.ends_with('?') ? "" : ".");
  std::string page = text::wrapped(about, kHelpWidth, 0) + "\n\n" + usage + values + "\n" +
                     section("Arguments", arguments) + section("Options", options) +
                     section("Commands", commands);
  if (!app->get_footer().empty()) page += "\n" + app->get_footer() + "\n";
  return page;
}

}  // namespace gpumemprof::cli
