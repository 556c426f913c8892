// Files that recordings show under another name: the cells of a notebook, which Python knows by a
// hash of their text.
//
// Any thread may call. Names are only ever added, and found without a lock: a forked child could
// find it held.
#pragma once

#include <string>
#include <string_view>

namespace gpumemprof::capture {

// For code that is described from now on; of several names of a file the newest counts.
void show_file_as(std::string file, std::string name);
// `file` itself if it has no other name.
std::string_view shown_file(std::string_view file);

}  // namespace gpumemprof::capture
