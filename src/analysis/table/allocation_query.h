// AllocationQuery: a page of a device's allocations, sorted and filtered as the user asks.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analysis/timeline/timeline.h"
#include "store/store.h"

namespace gpumemprof {

enum class AllocationOrder : std::uint8_t { size, birth, lifetime, rounding };
enum class SortDirection : std::uint8_t { down, up };  // down: the largest first

struct AllocationFilter {
  // Each word must be found, regardless of case: in the function or file of a frame, as "file:line"
  // (train.py:19), in the source (gradients), in the tensor's name (blocks.1.down) or in the tag it
  // was allocated under (kv_cache). Words may be found in different frames; in backward the frames
  // of the forward stack count too. "file:", "function:", "source:", "name:" and "tag:" before a
  // word search only there, "-" before it excludes what matches.
  std::string words;
  std::uint64_t min_size_bytes = 0;
  std::uint64_t max_size_bytes = kUnknownBytes;
  // In time if the recording has it, else in events. What is never freed lives to the end.
  std::int64_t min_lifetime = 0;
  std::int64_t max_lifetime = kMostLifetime;
  std::optional<Position> live_at;
  // Live somewhere in [from, to).
  std::optional<Position> from;
  std::optional<Position> to;
  const Grouping* grouping = nullptr;  // with `group`: only what belongs to it
  std::uint8_t group = 0;

  static constexpr std::int64_t kMostLifetime = std::numeric_limits<std::int64_t>::max();
};

struct AllocationQuery {
  AllocationFilter filter;
  AllocationOrder order = AllocationOrder::size;
  SortDirection direction = SortDirection::down;
  std::size_t offset = 0;
  std::size_t limit = 100;
};

struct AllocationPage {
  std::vector<AllocationId> rows;
  std::uint64_t matches = 0;
  std::uint64_t matching_bytes = 0;
};

// From birth to the moment its owner freed it, or to the end: nanoseconds, or events if no time is
// known.
std::int64_t lifetime_of(const DeviceRecord& record, const EventTimes& times, std::size_t row);

AllocationPage find_allocations(const Store& store, const DeviceRecord& record,
                                const EventTimes& times, const AllocationQuery& query);

}  // namespace gpumemprof
