// XXH64, the checksum of blocks: its cost is negligible next to compression, and it catches every
// flipped bit and torn write. It does not protect against a forged file; the decoders do.
#pragma once

#include <cstdint>
#include <span>

namespace gpumemprof::trace {

std::uint64_t checksum(std::span<const std::uint8_t> bytes, std::uint64_t seed = 0);

}  // namespace gpumemprof::trace
