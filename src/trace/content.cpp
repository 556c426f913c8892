#include "trace/content.h"

#include <bit>

#include "base/utf8.h"
#include "event/plausible.h"
#include "trace/format.h"

namespace gpumemprof::trace {
namespace {

constexpr std::uint8_t kHasSegments = 1;
constexpr std::uint8_t kHasStart = 2;
constexpr std::uint8_t kHasTraces = 4;
constexpr std::uint8_t kHasCut = 8;

constexpr std::uint8_t kHasCounts = 1;
constexpr std::uint8_t kAreExact = 2;
constexpr std::uint8_t kWasClosed = 4;  // not set in a copy of a recording that was never closed

using Pairs = std::vector<std::pair<std::string, std::string>>;

// Facts are few and short; those that would not fit the block are left out.
constexpr std::size_t kMaxNameBytes = std::size_t{64} << 10;
constexpr std::size_t kMaxPairsBytes = std::size_t{4} << 20;

void put_text(OutBytes& out, std::string_view text) { out.text(text.substr(0, kMaxNameBytes)); }

std::string take_text(InBytes& in) { return repaired_utf8(in.text()); }

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

void put_counts(OutBytes& out, const EventCounts& counts) {
  out.varint(counts.allocations);
  out.varint(counts.frees);
  out.varint(counts.others);
}

EventCounts take_counts(InBytes& in) {
  EventCounts counts;
  counts.allocations = in.varint();
  counts.frees = in.varint();
  counts.others = in.varint();
  return counts;
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

DeviceIndex take_device(InBytes& in) {
  const std::int64_t device = in.signed_varint();
  if (device >= kHostDevice && device <= std::numeric_limits<DeviceIndex>::max()) {
    return static_cast<DeviceIndex>(device);
  }
  in.fail();
  return 0;
}

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

void Marks::clear() {
  annotations.clear();
  gaps.clear();
  samples.clear();
}

void encode_marks(OutBytes& out, const Marks& marks) {
  out.varint(marks.annotations.size());
  for (const Annotation& annotation : marks.annotations) {
    out.varint(annotation.name.is_none() ? 0 : std::uint64_t{annotation.name.index} + 1);
    out.byte(static_cast<std::uint8_t>(annotation.stage));
    out.signed_varint(annotation.device);
    out.signed_varint(annotation.time_ns);
  }
  out.varint(marks.gaps.size());
  for (const Gap& gap : marks.gaps) {
    out.signed_varint(gap.device);
    out.varint(gap.before_event);
    out.varint(gap.lost_events);
    out.varint(gap.end_event);
    out.signed_varint(gap.first_time_ns);
    out.signed_varint(gap.last_time_ns);
    out.varint(gap.lost_allocations);
    out.varint(gap.lost_frees);
  }
  out.varint(marks.samples.size());
  for (const DeviceSample& sample : marks.samples) {
    out.signed_varint(sample.device);
    out.signed_varint(sample.time_ns);
    // The bytes plus one, so that unknown is 0.
    out.varint(sample.total_bytes + 1);
    out.varint(sample.used_bytes + 1);
    out.varint(sample.process_bytes + 1);
    out.varint(sample.other_processes_bytes + 1);
    out.varint(sample.firmware_bytes + 1);
    out.varint(std::uint64_t{static_cast<std::uint32_t>(sample.before_event + 1)});
    out.byte(sample.libraries);
  }
}

bool decode_marks(InBytes in, int version, const DefinitionMap& definitions, Marks& marks) {
  marks.clear();
  for (std::size_t count = in.count(); count > 0 && in.ok(); --count) {
    Annotation annotation;
    const std::uint64_t name = in.below(definitions.strings().size() + 1);
    if (name != 0) annotation.name = definitions.strings()[name - 1];
    const std::uint8_t stage = in.byte();
    if (stage > 1) in.fail();
    annotation.stage = static_cast<Annotation::Stage>(stage & 1);
    annotation.device = take_device(in);
    annotation.time_ns = plausible_time(in.signed_varint());
    marks.annotations.push_back(annotation);
  }
  for (std::size_t count = in.count(); count > 0 && in.ok(); --count) {
    Gap gap;
    gap.device = take_device(in);
    gap.before_event = static_cast<std::uint32_t>(in.below(std::uint64_t{1} << 32));
    gap.lost_events = in.varint();
    gap.end_event = gap.before_event;
    if (version >= kCountsVersion) {
      gap.end_event = static_cast<std::uint32_t>(in.below(std::uint64_t{1} << 32));
      gap.first_time_ns = in.signed_varint();
      gap.last_time_ns = in.signed_varint();
      gap.lost_allocations = in.varint();
      gap.lost_frees = in.varint();
    }
    marks.gaps.push_back(gap);
  }
  for (std::size_t count = in.count(); count > 0 && in.ok(); --count) {
    DeviceSample sample;
    sample.device = take_device(in);
    sample.time_ns = plausible_time(in.signed_varint());
    sample.total_bytes = plausible_bytes(in.varint() - 1);
    sample.used_bytes = plausible_bytes(in.varint() - 1);
    sample.process_bytes = plausible_bytes(in.varint() - 1);
    if (version >= kLabelsVersion) {
      sample.other_processes_bytes = plausible_bytes(in.varint() - 1);
      sample.firmware_bytes = plausible_bytes(in.varint() - 1);
      sample.before_event =
          static_cast<std::uint32_t>(in.below(std::uint64_t{1} << 32)) - std::uint32_t{1};
      sample.libraries = in.byte();
    }
    marks.samples.push_back(sample);
  }
  return in.is_spent();
}

void encode_end(OutBytes& out, const Ending& ending, std::uint64_t events) {
  put_text(out, ending.reason);
  out.varint(events);
  put_text(out, ending.problem);
  out.byte(static_cast<std::uint8_t>((ending.has_counts ? kHasCounts : 0) |
                                     (ending.are_counts_exact ? kAreExact : 0) |
                                     (ending.is_closed ? kWasClosed : 0)));
  out.varint(ending.devices.size());
  for (const DeviceCounts& counts : ending.devices) {
    out.signed_varint(counts.device);
    put_counts(out, counts.made);
    put_counts(out, counts.lost);
    out.varint(counts.inferred_frees);
  }
}

bool decode_end(InBytes in, int version, Ending& ending, std::uint64_t& events) {
  ending = Ending();
  ending.reason = take_text(in);
  events = in.varint();
  if (version < kCountsVersion) {
    ending.is_closed = ending.reason != kNotClosed;
    return in.is_spent();
  }
  ending.problem = take_text(in);
  const std::uint8_t flags = in.byte();
  ending.has_counts = (flags & kHasCounts) != 0;
  ending.are_counts_exact = (flags & kAreExact) != 0;
  ending.is_closed = (flags & kWasClosed) != 0;
  for (std::size_t count = in.count(); count > 0 && in.ok(); --count) {
    DeviceCounts counts;
    counts.device = take_device(in);
    counts.made = take_counts(in);
    counts.lost = take_counts(in);
    counts.inferred_frees = in.varint();
    ending.devices.push_back(counts);
  }
  return in.is_spent();
}

}  // namespace gpumemprof::trace
