// UTF-8: text from untrusted files is made valid once, where it enters.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace gpumemprof {

bool is_valid_utf8(std::string_view text);

// The text with every byte that is not part of valid UTF-8 replaced by U+FFFD.
std::string repaired_utf8(std::string_view text);

// The length of the valid sequence that the text starts with; 0 if there is none.
std::size_t utf8_sequence_length(std::string_view text);
// The code point of one whole valid sequence.
char32_t utf8_code_point(std::string_view sequence);

// Appends one code point; surrogates and numbers past U+10FFFF become U+FFFD.
void append_utf8(std::string& text, char32_t code_point);

}  // namespace gpumemprof
