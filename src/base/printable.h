// Text from untrusted files (names in a recording, paths, messages) made safe to show on a
// terminal.
//
// What would move the cursor, colour or clear the screen, set its title, hide text or reverse its
// direction is shown as a dot: the control characters of ASCII and of Latin-1 (C1), DEL, bytes that
// are not UTF-8, bidirectional controls, line separators, and completely invisible characters.
#pragma once

#include <string>
#include <string_view>

namespace gpumemprof {

// One name or path. Line ends count as control characters: a name stays on one line.
std::string printable(std::string_view text);

// A page of our own output with such names in it: keeps line ends, and the styles that our own
// pages use (bold, dim, red, plain) if has_color is set.
std::string printable_page(std::string_view text, bool has_color);

// JSON, which may contain such characters inside strings: there they are escaped, so that it means
// the same and does nothing to a terminal.
std::string printable_json(std::string_view json);

}  // namespace gpumemprof
