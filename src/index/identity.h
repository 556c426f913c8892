// Identity: which recording an index belongs to, and which gpumemprof made it.
//
// A recording is known by its length and by samples of its bytes: its ends and some places between.
// A folder of chapters is known by its chapters: their numbers, lengths and samples, and the
// summary that lies beside them. When it was changed does not matter, so a copy keeps its index.
// The maker is known by its version, by the sources of everything that has a part in what an index
// says, and by the lists of fields.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace gpumemprof {

struct Identity {
  std::uint64_t size_bytes = 0;
  std::uint64_t content_checksum = 0;
  std::uint64_t maker_checksum = 0;
  bool operator==(const Identity&) const = default;
};

Result<Identity> identity_of(const std::string& recording);

}  // namespace gpumemprof
