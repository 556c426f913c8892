#include "analysis/timeline/pyramid.h"

#include <algorithm>
#include <utility>

namespace gpumemprof {
namespace {

struct ReservedChange {
  std::uint32_t place = 0;  // among the events of the record
  std::int64_t bytes = 0;
};

}  // namespace

void PyramidBuilder::open(std::uint32_t event, std::uint64_t allocated, const SourceBytes& now) {
  PyramidBucket bucket;
  bucket.min_allocated_bytes = allocated;
  raise(bucket, event, allocated, now);
  buckets_.push_back(bucket);
  end_ = (std::uint64_t{event} / bucket_events_ + 1) * bucket_events_;
}

void PyramidBuilder::add_part(const DeviceRecord& record, std::size_t first, std::size_t end,
                              std::uint32_t number) {
  const SegmentColumns& segments = record.segments;
  std::vector<ReservedChange> changes;
  for (std::size_t row = 0; row < segments.size(); ++row) {
    const auto bytes = static_cast<std::int64_t>(segments.size_bytes[row]);
    const std::uint32_t birth = segments.birth_event[row];
    const std::uint32_t death = segments.death_event[row];
    if (birth == kNoEvent && number == 0) reserved_ += segments.size_bytes[row];
    if (birth != kNoEvent && birth >= first && birth < end) changes.push_back({birth, bytes});
    if (death != kNoEvent && death >= first && death < end) changes.push_back({death, -bytes});
  }
  std::ranges::stable_sort(changes, {}, &ReservedChange::place);
  auto change = changes.begin();
  std::size_t place = first;
  while (place < end) {
    const std::uint64_t event = number + (place - first);
    const std::uint64_t row = event / bucket_events_ - first_bucket_;
    PyramidBucket& bucket = buckets_[row];
    const std::size_t bucket_end =
        std::min<std::size_t>(end, place + (bucket_events_ - event % bucket_events_));
    const bool is_new = event % bucket_events_ == 0;
    if (is_new) bucket.first_time_ns = record.events.time_ns[place];
    // The moments before the first change are those of an unchanged pool.
    const auto apply = [&] {
      reserved_ = static_cast<std::uint64_t>(static_cast<std::int64_t>(reserved_) + change->bytes);
      ++change;
    };
    while (change != changes.end() && change->place == place) apply();
    if (is_new) bucket.min_reserved_bytes = bucket.max_reserved_bytes = reserved_;
    const auto note_reserved = [&] {
      bucket.min_reserved_bytes = std::min(bucket.min_reserved_bytes, reserved_);
      bucket.max_reserved_bytes = std::max(bucket.max_reserved_bytes, reserved_);
    };
    note_reserved();
    while (change != changes.end() && change->place < bucket_end) {
      const std::uint32_t at = change->place;
      while (change != changes.end() && change->place == at) apply();
      note_reserved();
    }
    place = bucket_end;
  }
}

std::vector<PyramidBucket> PyramidBuilder::take(bool is_last) {
  std::vector<PyramidBucket> taken;
  if (buckets_.empty()) return taken;
  const bool keeps_one = !is_last;
  if (keeps_one) {
    taken.assign(buckets_.begin(), buckets_.end() - 1);
    buckets_.erase(buckets_.begin(), buckets_.end() - 1);
  } else {
    taken = std::exchange(buckets_, {});
  }
  first_bucket_ += taken.size();
  return taken;
}

}  // namespace gpumemprof
