#include "analysis/stack_profile/stack_profile.h"

#include <algorithm>

#include "analysis/code/whence.h"
#include "analysis/peak/live_set.h"
#include "analysis/tags/tags.h"

namespace gpumemprof {

ProfiledMoment profiled_moment(DeviceIndex device, const DeviceReplay& replay, AskedMoment asked) {
  if (asked.kind == AskedMoment::Kind::peak && !replay.has_history)
    asked.kind = AskedMoment::Kind::end;
  ProfiledMoment moment;
  moment.device = device;
  moment.kind = asked.kind;
  moment.is_end = asked.kind == AskedMoment::Kind::end;
  if (asked.kind == AskedMoment::Kind::peak) moment.event = replay.peak_event;
  if (asked.kind == AskedMoment::Kind::event) moment.event = asked.event;
  return moment;
}

void StackProfileSum::add(const DeviceRecord& record, const std::vector<std::uint32_t>& rows,
                          const std::vector<std::uint32_t>& births,
                          const std::vector<std::uint32_t>& frees) {
  const auto moment = std::ranges::find(moments_, record.device, &ProfiledMoment::device);
  if (moment == moments_.end()) return;
  const AllocationColumns& allocations = record.allocations;
  const AllocationLabels& labels = record.labels;
  const bool has_labels = labels.source.size() == allocations.size();
  for (const std::uint32_t row : rows) {
    // Freed before the recording began; a stream still used it.
    if (births[row] == kNoEvent && allocations.was_pending_at_start(row)) continue;
    if (!moment->is_born_by(births[row])) continue;
    const Whence from = whence(record, row);
    StackSample sample;
    sample.device = record.device;
    sample.stack = from.stack;
    sample.is_backward = from.is_backward;
    if (has_labels) sample.source = labels.source[row];
    sample.is_source_measured = has_labels && labels.is_measured(row);
    sample.tag = tag_of(record, row);
    const std::uint64_t bits = static_cast<std::uint64_t>(sample.source) << 2U |
                               (sample.is_backward ? std::uint64_t{2} : 0) |
                               (sample.is_source_measured ? 1 : 0);
    const auto device = static_cast<std::uint16_t>(sample.device);
    const Key key{std::uint64_t{sample.stack.index} << 32U | sample.tag.index,
                  std::uint64_t{device} << 32U | bits};
    const auto [place, is_new] = places_.try_emplace(key, samples_.size());
    if (is_new) samples_.push_back(sample);
    StackSample& sum = samples_[place->second];
    ++sum.alloc_objects;
    sum.alloc_bytes += allocations.size_bytes[row];
    if (moment->is_freed_by(frees[row])) continue;
    ++sum.inuse_objects;
    sum.inuse_bytes += allocations.size_bytes[row];
  }
}

void StackProfileSum::note_time(const DeviceRecord& record, std::size_t first_event,
                                std::size_t events, std::uint32_t first_number) {
  const auto moment = std::ranges::find(moments_, record.device, &ProfiledMoment::device);
  if (moment == moments_.end() || events == 0 || record.events.time_ns.empty()) return;
  const Column<std::int64_t>& times = record.events.time_ns;
  if (moment->is_end) {
    moment->time_ns = times[first_event + events - 1];
  } else if (moment->event != kNoEvent && moment->event >= first_number &&
             moment->event - first_number < events) {
    moment->time_ns = times[first_event + (moment->event - first_number)];
  }
}

StackProfile StackProfileSum::finish() {
  std::ranges::stable_sort(samples_, [](const StackSample& a, const StackSample& b) {
    return std::tuple(a.device, b.inuse_bytes, b.alloc_bytes) <
           std::tuple(b.device, a.inuse_bytes, a.alloc_bytes);
  });
  return {std::move(moments_), std::move(samples_)};
}

}  // namespace gpumemprof
