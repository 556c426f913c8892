// How the file of a frame is shown to a person: the program's own files relative to the folder of
// its main script, files of packages and of the standard library by the name they are imported by.
#pragma once

#include <string>
#include <string_view>

#include "store/store.h"

namespace gpumemprof {

// The folder of the main script with a slash at its end: that of the outermost frame outside of
// libraries. Empty where no stack tells it.
std::string program_folder(const Store& store);

// `file` as it is shown; a file elsewhere keeps its whole path.
std::string shown_file(std::string_view file, std::string_view program_folder);

}  // namespace gpumemprof
