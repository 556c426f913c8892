// Text from strangers (names in a recording, paths, messages) made safe to show on a terminal.
//
// What would move the cursor, colour or clear the screen, set its title, hide text or turn its
// direction round is shown as a dot: the control characters of ASCII and of Latin-1 (C1), DEL,
// bytes that are not UTF-8, the controls of bidirectional text, line separators, and the invisible
// characters of which nothing can be seen at all.
#pragma once

#include <string>
#include <string_view>

namespace gpumemprof {

// One name or path. Line ends are control characters too: a name is on one line.
std::string printable(std::string_view text);

// A page of ours with such names in it: keeps line ends, and the styles that our own pages use
// (bold, dim, red, plain) where has_color says that they do.
std::string printable_page(std::string_view text, bool has_color);

// JSON, in which such characters may stand inside strings: there they are escaped, so that it means
// the same and does nothing to a terminal.
std::string printable_json(std::string_view json);

}  // namespace gpumemprof
