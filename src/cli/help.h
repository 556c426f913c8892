// The help of the command and of its verbs, in the form of those that the Python package writes:
// 80 columns, "-f, --force", help last.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace gpumemprof::cli {

class HelpFormatter : public CLI::FormatterBase {
 public:
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override;
};

// The same as a manual page.
std::string manual_page(const CLI::App& app);

}  // namespace gpumemprof::cli
