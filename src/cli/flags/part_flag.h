// `--steps A:B`, `--events A:B` and `--whole`: which part of a long recording a verb reads.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "session/excerpt/excerpt.h"

namespace CLI {
class App;
}

namespace gpumemprof::cli {

struct PartFlags {
  std::string events;
  std::string steps;
  bool reads_whole = false;
};

void add_part_flags(CLI::App& verb, PartFlags& flags);

// Nothing if no part is asked for.
Result<std::optional<AskedPart>> parse_part(const PartFlags& flags,
                                            std::optional<DeviceIndex> device);

}  // namespace gpumemprof::cli
