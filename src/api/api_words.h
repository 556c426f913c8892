// What the rooms below say in the words of the command line, in those of this interface.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace gpumemprof::api {

inline std::string in_api_words(std::string text) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kWords = {{
      {"--batch", "`batch`"},
      {"--with", "`other`"},
      {"--alloc-conf", "`alloc_confs`"},
      {", or --at end", ""},
      {"ask for --steps 1:1", "ask for steps 1 to 1"},
      {"ask for events instead", "open it as a whole"},
  }};
  for (const auto& [command, api] : kWords) {
    for (std::size_t at = text.find(command); at != std::string::npos; at = text.find(command, at))
      text.replace(at, command.size(), api);
  }
  return text;
}

inline Error in_api_words(Error error) {
  error.message = in_api_words(std::move(error.message));
  error.hint = in_api_words(std::move(error.hint));
  return error;
}

}  // namespace gpumemprof::api
