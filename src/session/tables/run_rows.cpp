#include "session/tables/run_rows.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "analysis/code/whence.h"
#include "analysis/tags/tags.h"
#include "analysis/timeline/grouping.h"
#include "session/tables/window_tables.h"

namespace gpumemprof {
namespace {

// All of a row but what its events are called and when it was freed.
AllocationRow row_of(const DeviceRecord& record, std::size_t index) {
  const AllocationColumns& rows = record.allocations;
  AllocationRow row;
  row.device = record.device;
  row.size_bytes = rows.size_bytes[index];
  row.requested_bytes = rows.requested_bytes[index];
  row.was_pending_at_start = rows.was_pending_at_start(index);
  const std::uint32_t event = rows.alloc_event[index];
  const Column<StackId>& forwards = record.events.forward_stack;
  if (event < forwards.size()) row.forward_stack = forwards[event];
  const Whence from = whence(record, index);
  row.is_backward = from.is_backward;
  row.stack = from.stack;
  if (has_sources(record)) {
    row.source = record.labels.source[index];
    row.is_source_measured = record.labels.is_measured(index);
  }
  if (index < record.labels.name.size()) row.name = record.labels.name[index];
  row.tag = tag_of(record, index);
  if (event < record.events.size()) row.time_ns = record.events.time_ns[event];
  return row;
}

void set_lifetime(AllocationRow& row, std::int64_t free_time_ns) {
  if (row.time_ns == kUnknownTime || free_time_ns == kUnknownTime) return;
  row.lifetime_ns = std::max<std::int64_t>(free_time_ns - row.time_ns, 0);
}

// Rows that are freed in a later window wait for it.
class WindowRows {
 public:
  explicit WindowRows(const TakeRow& take) : take_(take) {}

  void show(const TableWindow& window) {
    store_ = &window.store;
    auto& waiting = waiting_[window.record.device];
    const DeviceRecord& record = window.record;
    const std::uint32_t first = window.events == 0 ? 0 : window.event_numbers[window.first_event];
    const auto end = static_cast<std::uint32_t>(first + window.events);
    const auto time_of = [&](std::uint32_t number) {
      return record.events.time_ns[window.first_event + (number - first)];
    };
    while (!waiting.empty() && waiting.begin()->first < end) {
      AllocationRow& row = waiting.begin()->second;
      set_lifetime(row, time_of(waiting.begin()->first));
      take_(window.store, row);
      waiting.erase(waiting.begin());
    }
    for (const std::uint32_t index : window.rows) {
      AllocationRow row = row_of(record, index);
      row.birth = window.births[index];
      row.free = window.frees[index];
      row.step = window.steps[index];
      if (row.birth == kNoEvent) row.time_ns = kUnknownTime;
      if (row.free != kNoEvent && row.free >= end) {
        waiting.emplace(row.free, row);
        continue;
      }
      if (row.free != kNoEvent && row.free >= first) set_lifetime(row, time_of(row.free));
      take_(window.store, row);
    }
  }

  // A damaged recording may name frees that no window has.
  void finish() {
    for (auto& [device, waiting] : waiting_) {
      for (auto& [free, row] : waiting) take_(*store_, row);
    }
  }

 private:
  const TakeRow& take_;
  const Store* store_ = nullptr;
  std::map<DeviceIndex, std::multimap<std::uint32_t, AllocationRow>> waiting_;
};

}  // namespace

void take_rows(const Recording& recording, const TakeRow& take) {
  const Store& store = recording.store();
  for (std::size_t device = 0; device < store.devices().size(); ++device) {
    const DeviceRecord& record = *store.devices()[device];
    const AllocationColumns& rows = record.allocations;
    const std::optional<ExcerptRange>& range = store.facts().device(record.device).excerpt;
    const auto number = [&](std::uint32_t event) {
      return range ? range->number_of(event) : event;
    };
    for (std::size_t index = 0; index < rows.size(); ++index) {
      AllocationRow row = row_of(record, index);
      const std::uint32_t birth = rows.alloc_event[index];
      const std::uint32_t free = rows.free_requested_event[index];
      row.birth = number(birth);
      row.free = number(free);
      row.step = step_at(recording.phases()[device], birth);
      // What the lead-in of an excerpt allocates is older than it.
      if (birth == kNoEvent || birth < record.lead_in) row.time_ns = kUnknownTime;
      if (free < record.events.size()) set_lifetime(row, record.events.time_ns[free]);
      take(store, row);
    }
  }
}

Result<std::shared_ptr<const Store>> take_rows_in_windows(const std::string& path,
                                                          const TakeRow& take) {
  Result<std::unique_ptr<TabledRun>> opened = TabledRun::open_in_windows(path);
  if (!opened) return opened.error();
  if (opened.value() == nullptr) return std::shared_ptr<const Store>();
  const std::shared_ptr<TabledRun> run = std::move(opened).value();
  WindowRows rows(take);
  const Status shown = run->show([&](const TableWindow& window) { rows.show(window); });
  if (!shown) return shown.error();
  rows.finish();
  return std::shared_ptr<const Store>(run, &run->store());
}

}  // namespace gpumemprof
