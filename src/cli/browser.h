// Starts the user's browser on a URL.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpumemprof::cli {

// Words as a shell splits them: quotes, and backslashes before a character. Nothing where a quote
// is not closed.
std::optional<std::vector<std::string>> split_words(std::string_view text);

// The command lines listed in BROWSER, in order: separated by colons, each a program with
// arguments, in which %s is the URL (appended after the last argument where there is no %s).
// xdg-open where BROWSER lists none.
std::vector<std::vector<std::string>> browser_commands(std::string_view browser,
                                                       const std::string& url);

// False: none could be started.
bool start_browser(const std::string& url);

// Whether the user sits in front of a screen, and not at the far end of an ssh session.
bool has_screen();

}  // namespace gpumemprof::cli
