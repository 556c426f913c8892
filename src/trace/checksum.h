// XXH64, the checksum of blocks: fast enough to be free beside compression, and catches every
// flipped bit and torn write. It is no defence against a forged file; the decoders are.
#pragma once

#include <cstdint>
#include <span>

namespace gpumemprof::trace {

std::uint64_t checksum(std::span<const std::uint8_t> bytes, std::uint64_t seed = 0);

}  // namespace gpumemprof::trace
