// Sizes as people read and write them: bytes in data, KiB, MiB and GiB in print.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gpumemprof {

inline constexpr std::uint64_t kKiB = 1ULL << 10;
inline constexpr std::uint64_t kMiB = 1ULL << 20;
inline constexpr std::uint64_t kGiB = 1ULL << 30;

// "512 B", "3.00 KiB", "4.78 GiB": three significant figures.
std::string format_bytes(std::uint64_t bytes);

// "24GiB", "24 GB", "512m", "1073741824". Nothing if it is not a size or does not fit 64 bits.
std::optional<std::uint64_t> parse_bytes(std::string_view text);

}  // namespace gpumemprof
