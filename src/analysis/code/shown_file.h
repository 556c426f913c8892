// How the file of a frame is shown to the user: the program's own files relative to the folder of
// its main script or package, files of packages and of the standard library by the name they are
// imported by.
#pragma once

#include <string>
#include <string_view>

#include "store/store.h"

namespace gpumemprof {

// The folder of the main script with a trailing slash: that of the outermost frame outside
// libraries; where that is a module of a package, started with python -m, the folder that the
// package is in. Empty if no stack shows it.
std::string program_folder(const Store& store);

// `file` as it is shown; a file elsewhere keeps its full path.
std::string shown_file(std::string_view file, std::string_view program_folder);

}  // namespace gpumemprof
