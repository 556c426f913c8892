// How long a mangled C++ name becomes when it is demangled, before it is.
//
// A mangled name refers to its own parts by number, so a short one can stand for a text that no
// memory holds, and the C++ library demangles it without a limit. This reads the grammar of the
// Itanium ABI, which all compilers here follow, and only adds up lengths.
#pragma once

#include <cstdint>
#include <string_view>

namespace gpumemprof {

// At least as many bytes as the name and everything that it refers to; as good as no limit for a
// name with syntax that is not known here and many references.
std::uint64_t most_demangled_bytes(std::string_view mangled);

}  // namespace gpumemprof
