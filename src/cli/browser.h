// Starts the user's browser on a URL.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpumemprof::cli {

// Words as a shell splits them: quotes, and backslashes before a character. Nothing where a quote
// is left open.
std::optional<std::vector<std::string>> split_words(std::string_view text);

// The command lines that BROWSER names, in order: separated by colons, each a program with
// arguments, in which %s is the URL (behind the last argument where there is none). xdg-open where
// it names none.
std::vector<std::vector<std::string>> browser_commands(std::string_view browser,
                                                       const std::string& url);

// False: none could be started.
bool start_browser(const std::string& url);

// Whether there is a screen in front of which the user sits, not on the far end of an ssh session.
bool has_screen();

}  // namespace gpumemprof::cli
