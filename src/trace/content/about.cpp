#include "trace/content/about.h"

#include "trace/content/short_text.h"

namespace gpumemprof::trace {
namespace {

constexpr std::uint8_t kHasSegments = 1;
constexpr std::uint8_t kHasStart = 2;
constexpr std::uint8_t kHasTraces = 4;
constexpr std::uint8_t kHasCut = 8;

using Pairs = std::vector<std::pair<std::string, std::string>>;

// Facts are few and short; those that would not fit the block are left out.
constexpr std::size_t kMaxPairsBytes = std::size_t{4} << 20;

void put_pairs(OutBytes& out, const Pairs& pairs) {
  std::size_t count = 0;
  std::size_t bytes = 0;
  for (; count < pairs.size(); ++count) {
    bytes += pairs[count].first.size() + pairs[count].second.size();
    if (bytes > kMaxPairsBytes) break;
  }
  out.varint(count);
  for (std::size_t index = 0; index < count; ++index) {
    out.text(pairs[index].first);
    out.text(pairs[index].second);
  }
}

Pairs take_pairs(InBytes& in) {
  Pairs pairs;
  for (std::size_t count = in.count(); count > 0 && in.ok(); --count) {
    std::string key = take_text(in);
    pairs.emplace_back(std::move(key), take_text(in));
  }
  return pairs;
}

void put_settings(OutBytes& out, const AllocatorSettings& settings) {
  out.varint(settings.max_split_bytes);
  out.varint(settings.max_non_split_rounding_bytes);
  out.varint(settings.large_segment_bytes);
  out.fixed(settings.garbage_collection_threshold);
  out.byte(settings.expandable_segments ? 1 : 0);
  for (const std::uint64_t divisions : settings.roundup_divisions) out.varint(divisions);
}

AllocatorSettings take_settings(InBytes& in) {
  AllocatorSettings settings;
  settings.max_split_bytes = in.varint();
  settings.max_non_split_rounding_bytes = in.varint();
  settings.large_segment_bytes = in.varint();
  settings.garbage_collection_threshold = in.fixed<double>();
  settings.expandable_segments = in.byte() != 0;
  for (std::uint64_t& divisions : settings.roundup_divisions) divisions = in.varint();
  settings.settle();
  return settings;
}

}  // namespace

void encode_about(OutBytes& out, const Origin& origin, const AllocatorSettings& settings) {
  put_text(out, origin.kind);
  put_text(out, origin.device_type);
  out.byte(static_cast<std::uint8_t>(
      (origin.has_segments ? kHasSegments : 0) | (origin.has_start ? kHasStart : 0) |
      (origin.has_traces ? kHasTraces : 0) | (origin.cut ? kHasCut : 0)));
  if (origin.cut) {
    out.varint(origin.cut->byte_offset);
    put_text(out, origin.cut->reason);
  }
  put_pairs(out, origin.settings);
  put_pairs(out, origin.facts);
  put_settings(out, settings);
}

bool decode_about(InBytes in, Origin& origin, AllocatorSettings& settings) {
  Origin found;
  found.kind = take_text(in);
  found.device_type = take_text(in);
  const std::uint8_t flags = in.byte();
  found.has_segments = (flags & kHasSegments) != 0;
  found.has_start = (flags & kHasStart) != 0;
  found.has_traces = (flags & kHasTraces) != 0;
  if ((flags & kHasCut) != 0) {
    const std::uint64_t byte_offset = in.varint();
    found.cut = CutPoint{byte_offset, take_text(in)};
  }
  found.settings = take_pairs(in);
  found.facts = take_pairs(in);
  const AllocatorSettings taken = take_settings(in);
  if (!in.is_spent()) return false;
  origin = std::move(found);
  settings = taken;
  return true;
}

}  // namespace gpumemprof::trace
