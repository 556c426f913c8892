// UTF-8: text from strangers is made valid once, where it enters.
#pragma once

#include <string>
#include <string_view>

namespace gpumemprof {

bool is_valid_utf8(std::string_view text);

// The text with every byte that is not part of valid UTF-8 replaced by U+FFFD.
std::string repaired_utf8(std::string_view text);

// Appends one code point; surrogates and numbers past U+10FFFF become U+FFFD.
void append_utf8(std::string& text, char32_t code_point);

}  // namespace gpumemprof
