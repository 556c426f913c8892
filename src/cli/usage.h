// What is wrong with a command line, in our own words: one sentence that ends in the next step.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace gpumemprof::cli {

// The first word is not a command; CLI11 would only say that a subcommand is missing.
std::optional<Error> unknown_verb(const CLI::App& app, int argc, const char* const* argv);

// "--json=3": CLI11 treats the number as how often the flag was given.
std::optional<Error> flag_with_value(const CLI::App& app, int argc, const char* const* argv);

// "unknown remedy 'sdg', did you mean 'sgd'?" `hint` is for words that resemble none of the names.
Error unknown_name(const std::string& what, const std::string& word,
                   const std::vector<std::string>& names, const std::string& hint);

// Why `app` could not be parsed; `mistake` is what CLI11 threw, and is not a request for help.
Error usage_error(const CLI::App& app, const CLI::ParseError& mistake);

}  // namespace gpumemprof::cli
