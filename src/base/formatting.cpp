// fmt's functions, compiled once: as a header alone, fmt would be compiled anew with every source
// that formats something. The others include <fmt/core.h>, which declares the two and needs no
// other.
#define FMT_HEADER_ONLY 1
#include <fmt/format.h>

#include <cstdio>
#include <string>

namespace gpumemprof {
namespace {

// Taking their addresses keeps them.
[[gnu::used]] std::string (*const kFormat)(fmt::string_view, fmt::format_args) = &fmt::vformat;
[[gnu::used]] void (*const kPrint)(std::FILE*, fmt::string_view, fmt::format_args) = &fmt::vprint;

}  // namespace
}  // namespace gpumemprof
