#include "api/reader/opened_recording.h"

#include <utility>

namespace gpumemprof::api {
namespace {

// Changes of the totals at one event; unsigned, since sums wrap back to what they should be.
void add(MemoryTotals& to, const MemoryTotals& change) {
  to.allocated_bytes += change.allocated_bytes;
  to.active_bytes += change.active_bytes;
  to.reserved_bytes += change.reserved_bytes;
  to.requested_bytes += change.requested_bytes;
}

class TotalsAtEvents {
 public:
  explicit TotalsAtEvents(std::size_t events) : changes_(events) {}

  // From after `birth` until `death`; no birth: from the start.
  void add_lifetime(std::uint32_t birth, std::uint32_t death, const MemoryTotals& bytes) {
    if (birth == kNoEvent) {
      add(start_, bytes);
    } else if (birth < changes_.size()) {
      add(changes_[birth], bytes);
    }
    if (death < changes_.size()) add(changes_[death], negative(bytes));
  }

  std::vector<MemoryTotals> summed() && {
    MemoryTotals sum = start_;
    for (MemoryTotals& change : changes_) {
      add(sum, change);
      change = sum;
    }
    return std::move(changes_);
  }

 private:
  static MemoryTotals negative(const MemoryTotals& bytes) {
    return {0 - bytes.allocated_bytes, 0 - bytes.active_bytes, 0 - bytes.reserved_bytes,
            0 - bytes.requested_bytes};
  }

  MemoryTotals start_;
  std::vector<MemoryTotals> changes_;
};

std::vector<MemoryTotals> totals_after_events(const DeviceRecord& record) {
  TotalsAtEvents totals(record.events.size());
  const AllocationColumns& rows = record.allocations;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const std::uint64_t bytes = rows.size_bytes[row];
    // Freed before the first event, and only waiting for a stream since.
    if (!rows.was_pending_at_start(row)) {
      totals.add_lifetime(rows.alloc_event[row], rows.free_requested_event[row], {bytes, 0, 0, 0});
    }
    totals.add_lifetime(rows.alloc_event[row], rows.free_completed_event[row],
                        {0, bytes, 0, rows.requested_bytes[row]});
  }
  const SegmentColumns& segments = record.segments;
  for (std::size_t row = 0; row < segments.size(); ++row) {
    totals.add_lifetime(segments.birth_event[row], segments.death_event[row],
                        {0, 0, segments.size_bytes[row], 0});
  }
  return std::move(totals).summed();
}

}  // namespace

OpenedDevice::OpenedDevice(const Recording& recording, std::size_t row)
    : store_(recording.store()),
      record_(*store_.devices()[row]),
      replay_(recording.replays()[row]),
      spans_(recording.phases()[row]),
      name_(store_.device_name(record_.device)),
      has_pool_(store_.facts().device(record_.device).has_pool) {}

const DeviceSources& OpenedDevice::sources() const {
  std::call_once(sources_once_, [&] {
    sources_ = find_sources(store_, record_, replay_, record_.labels, spans_);
  });
  return sources_;
}

const std::vector<MemoryTotals>& OpenedDevice::totals() const {
  std::call_once(totals_once_, [&] { totals_ = totals_after_events(record_); });
  return totals_;
}

gpumemprof_totals OpenedDevice::shown(const MemoryTotals& totals) const {
  return {totals.allocated_bytes, totals.active_bytes,
          has_pool_ ? totals.reserved_bytes : GPUMEMPROF_UNKNOWN, totals.requested_bytes};
}

gpumemprof_source_bytes shown_sources(const SourceBytes& bytes) {
  static_assert(kMemorySourceCount <= GPUMEMPROF_MOST_SOURCES);
  gpumemprof_source_bytes shown{};
  std::ranges::copy(bytes.by_source, std::begin(shown.by_source));
  shown.rounding_bytes = bytes.rounding;
  return shown;
}

}  // namespace gpumemprof::api

gpumemprof_recording::gpumemprof_recording(std::shared_ptr<const gpumemprof::Recording> opened)
    : recording(std::move(opened)),
      completeness(gpumemprof::find_completeness(recording->store())) {
  for (std::size_t row = 0; row < recording->store().devices().size(); ++row)
    devices.push_back(std::make_unique<gpumemprof::api::OpenedDevice>(*recording, row));
  if (const auto error = recording->cut()) cut = error->sentence();
}
