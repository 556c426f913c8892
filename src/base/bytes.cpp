#include "base/bytes.h"

#include <fmt/core.h>

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <utility>

namespace gpumemprof {
namespace {

constexpr std::array<const char*, 6> kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};

struct Unit {
  const char* name;
  std::uint64_t bytes;
};

constexpr std::array<Unit, 14> kParsedUnits = {{{"", 1},
                                                {"b", 1},
                                                {"k", kKiB},
                                                {"kb", 1000},
                                                {"kib", kKiB},
                                                {"m", kMiB},
                                                {"mb", 1000000},
                                                {"mib", kMiB},
                                                {"g", kGiB},
                                                {"gb", 1000000000},
                                                {"gib", kGiB},
                                                {"t", kGiB * kKiB},
                                                {"tb", 1000000000000},
                                                {"tib", kGiB * kKiB}}};

std::optional<std::uint64_t> bytes_of_unit(std::string_view text) {
  std::string name;
  for (const char c : text) {
    if (c != ' ') name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  for (const Unit& known : kParsedUnits) {
    if (name == known.name) return known.bytes;
  }
  return std::nullopt;
}

}  // namespace

std::string format_bytes(std::uint64_t bytes) {
  if (bytes < kKiB) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes) / static_cast<double>(kKiB);
  std::size_t unit = 0;
  // 1023.5 would print as "1024": step to the next unit before that.
  while (value >= 1023.5 && unit + 1 < kUnits.size()) {
    value /= 1024.0;
    ++unit;
  }
  const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f} {}", value, decimals, kUnits[unit]);
}

std::optional<std::uint64_t> parse_bytes(std::string_view text) {
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  double number = 0;
  const auto [rest, error] = std::from_chars(begin, end, number);
  if (error != std::errc() || !(number >= 0)) return std::nullopt;
  const std::optional<std::uint64_t> unit =
      bytes_of_unit({rest, static_cast<std::size_t>(end - rest)});
  if (!unit) return std::nullopt;
  // Whole numbers stay exact beyond what a double holds.
  std::uint64_t whole = 0;
  std::uint64_t bytes = 0;
  if (const auto parsed = std::from_chars(begin, end, whole); parsed.ptr == rest) {
    if (parsed.ec != std::errc()) return std::nullopt;
    const bool overflows = __builtin_mul_overflow(whole, *unit, &bytes);
    return overflows ? std::nullopt : std::optional(bytes);
  }
  constexpr double kTooMany = 18446744073709551616.0;
  const double rounded = std::round(number * static_cast<double>(*unit));
  if (!(rounded < kTooMany)) return std::nullopt;
  return static_cast<std::uint64_t>(rounded);
}

}  // namespace gpumemprof
