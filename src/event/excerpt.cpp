#include "event/excerpt.h"

#include <array>
#include <charconv>

namespace gpumemprof {
namespace {

constexpr std::uint32_t kExpandable = 2;
constexpr std::uint32_t kPlain = 1;
constexpr std::size_t kNumbers = 8;  // then the time

}  // namespace

std::string excerpt_text(const ExcerptRange& range) {
  std::uint32_t mode = 0;
  if (range.is_expandable) mode = *range.is_expandable ? kExpandable : kPlain;
  std::string text;
  for (const std::uint32_t number :
       {range.from, range.to, range.run_events, range.first_step, range.last_step, range.lead_in,
        range.is_around_peak ? 1U : 0U, mode})
    text += std::to_string(number) + " ";
  return text + std::to_string(range.run_start_ns);
}

std::optional<ExcerptRange> parse_excerpt(std::string_view text) {
  std::array<std::uint32_t, kNumbers> numbers{};
  const char* at = text.data();
  const char* const end = at + text.size();
  for (std::uint32_t& number : numbers) {
    const auto parsed = std::from_chars(at, end, number);
    if (parsed.ec != std::errc() || parsed.ptr == end || *parsed.ptr != ' ') return std::nullopt;
    at = parsed.ptr + 1;
  }
  std::int64_t run_start_ns = 0;
  const auto parsed = std::from_chars(at, end, run_start_ns);
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  const auto [from, to, events, first_step, last_step, lead_in, peak, mode] = numbers;
  if (from >= to || to > events || mode > kExpandable) return std::nullopt;
  ExcerptRange range{from, to, events, first_step, last_step, lead_in, peak != 0, run_start_ns, {}};
  if (mode > 0) range.is_expandable = mode == kExpandable;
  return range;
}

}  // namespace gpumemprof
