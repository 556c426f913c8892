# Writes the header OUTPUT with a checksum of all sources below the FOLDERS: whatever is made with them and kept is made
# again when one of them changes.
set(sums "")
foreach(folder IN LISTS FOLDERS)
  file(GLOB_RECURSE sources "${folder}/*.h" "${folder}/*.cpp")
  list(SORT sources)
  foreach(source IN LISTS sources)
    file(SHA256 "${source}" sum)
    string(APPEND sums "${sum}\n")
  endforeach()
endforeach()
string(SHA256 sum "${sums}")
file(CONFIGURE OUTPUT "${OUTPUT}" @ONLY CONTENT [[// Made by cmake/sources_checksum.cmake.
#pragma once

#include <string_view>

namespace gpumemprof {

inline constexpr std::string_view kSourcesChecksum = "@sum@";

}  // namespace gpumemprof
]])
