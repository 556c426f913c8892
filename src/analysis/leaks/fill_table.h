// TableFiller: fills a FloorTable from the events and allocations of one device, in order, and
// keeps what is live when the work ends.
#pragma once

#include <string_view>
#include <vector>

#include "analysis/code/allocation_site.h"
#include "analysis/code/code_kind.h"
#include "analysis/growth/growth.h"
#include "analysis/leaks/floor_table.h"
#include "base/flat_map.h"
#include "store/store.h"

namespace gpumemprof {

// The name of the annotation around a run of Python's garbage collector that freed memory.
inline constexpr std::string_view kCollection = "garbage collection";

// An allocation that is live when the work ends.
struct KeptAllocation {
  std::uint64_t site = 0;  // key
  std::uint64_t bytes = 0;
  std::uint32_t birth = 0;
  std::uint32_t module = kNoModule;
  StackId stack;
  StringId tag;
  MemorySource source = MemorySource::unknown;  // as reports say it
  bool is_measured = false;
  bool is_freed = false;  // after the end of the work
};

class TableFiller {
 public:
  // The floors must be those of the repetitions; both must outlive it.
  TableFiller(const Store& store, const StepFloors& floors);

  // Allocations in order of birth. The lifetime has the numbers of the run, the row those of its
  // record, which must have labels.
  void add(const DeviceRecord& record, std::size_t row, Lifetime life);
  // One that was added: the garbage collector freed it.
  void add_collected(const DeviceRecord& record, std::size_t row, Lifetime life);
  // Events in order.
  void add_event(std::uint32_t event, Action action, std::uint64_t size_bytes);
  // No row that is born before this event is added any more.
  void settle(std::uint32_t before_event);
  // After the last event: the pool, in numbers of the run.
  void add_reserved(DeviceIndex device, const SegmentColumns& segments);

  [[nodiscard]] FloorTable take_table() { return std::move(table_); }
  [[nodiscard]] std::vector<KeptAllocation> take_kept() { return std::move(kept_); }

 private:
  [[nodiscard]] bool is_of_steps(Lifetime life) const {
    return life.birth != kNoEvent && life.birth >= floors_.steps.front().first_event;
  }
  SiteFloors& site(std::uint64_t key);
  void keep(const DeviceRecord& record, std::size_t row, Lifetime life);

  const Store& store_;
  const StepFloors& floors_;
  std::vector<CodeKind> kinds_;
  AllocationSites sites_;
  FloorCursor cursor_;
  FlatMap<std::uint32_t> rows_of_sites_;  // by key → row of the table's sites
  FloorTable table_;
  std::vector<KeptAllocation> kept_;
  std::vector<std::uint64_t> peaks_;  // of the floors
  std::size_t next_floor_ = 0;        // that events have not reached
  std::int64_t live_ = 0;
  std::int64_t peak_ = 0;
};

// The events [first, end) in which the garbage collector ran.
struct Collection {
  std::uint32_t first = 0;
  std::uint32_t end = 0;
  auto operator<=>(const Collection&) const = default;
};
// When they ended, sorted.
std::vector<std::int64_t> collection_times(const Store& store, DeviceIndex device);
// Among events [begin, end) of the record, sorted; `is_end`: nothing follows them.
std::vector<Collection> find_collections(const std::vector<std::int64_t>& times_ns,
                                         const DeviceRecord& record, std::size_t begin,
                                         std::size_t end, bool is_end);
bool is_in(const std::vector<Collection>& collections, std::uint32_t event);

// From a whole recording.
FloorTable fill_table(const Store& store, const DeviceRecord& record, const StepFloors& floors);
void fill_table(const DeviceRecord& record, const std::vector<Collection>& collections,
                TableFiller& filler);

// What an allocation is, also where its label does not say: by the code that made it.
MemorySource likely_source(const DeviceRecord& record, std::size_t row,
                           const std::vector<CodeKind>& kinds);

}  // namespace gpumemprof
