// Where a figure comes from. Every figure that is not measured says so.
#pragma once

#include <cstdint>
#include <string_view>

namespace gpumemprof {

enum class Provenance : std::uint8_t { measured, inferred, simulated, estimated };

constexpr std::string_view provenance_name(Provenance provenance) {
  switch (provenance) {
    case Provenance::measured:
      return "measured";
    case Provenance::inferred:
      return "inferred";
    case Provenance::simulated:
      return "simulated";
    case Provenance::estimated:
      break;
  }
  return "estimated";
}

}  // namespace gpumemprof
