// What two recordings of the same run show at a moment: one is whole, one may be a part of it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "analysis/moment/flame.h"
#include "analysis/moment/pool_state.h"
#include "analysis/timeline/timeline.h"
#include "report/view/view_json.h"
#include "session/recording.h"

namespace gpumemprof {

// Addresses and sizes, without the numbers that differ from recording to recording.
inline std::string pool_text(const DeviceRecord& record, Moment moment) {
  const PoolState pool = pool_state_at(record, moment);
  std::string text;
  for (const PoolSegment& segment : pool.segments) {
    text += "\nsegment " + std::to_string(segment.state.address) + " " +
            std::to_string(segment.state.size_bytes) + " free " +
            std::to_string(segment.free_bytes) +
            (segment.oldest.is_none()
                 ? ""
                 : " oldest " + std::to_string(record.allocations.address[segment.oldest.index]));
    for (const PoolBlock& block : pool.blocks_of(segment)) {
      text += " " + std::to_string(block.address) + "+" + std::to_string(block.size_bytes) +
              (block.is_free() ? "f" : "") + (block.is_waiting ? "w" : "");
    }
  }
  return text;
}

struct Side {
  const Recording& recording;
  const DeviceRecord& record;
  Timeline timeline{record};
  LiveRows live{record};

  [[nodiscard]] std::string flame(Position position, FlameBy by) const {
    FlameOptions options;
    options.by = by;
    return view::flame_json(recording.store(),
                            flame_at(recording.store(), record, live, position, options), 0);
  }
  [[nodiscard]] SourceBytes sources(Position position) const {
    return sources_at(record, record.labels, moment_of(position));
  }
  // What is live, by name.
  [[nodiscard]] std::vector<std::string> names(Position position) const {
    std::vector<std::string> found;
    for (const AllocationId row : live.active_at(position)) {
      if (record.labels.name.empty() || record.labels.name[row.index].is_none()) continue;
      found.emplace_back(recording.store().text(record.labels.name[row.index]));
    }
    std::ranges::sort(found);
    return found;
  }
};

inline void expect_equal(const Side& whole, const Side& part, const ExcerptRange& range,
                         std::uint32_t event) {
  const Position there = position_after(event);
  const Position here = position_after(range.row_of(event));
  SCOPED_TRACE("events " + std::to_string(range.from) + " to " + std::to_string(range.to) +
               ", after event " + std::to_string(event));
  EXPECT_EQ(whole.timeline.allocated().bytes_at(there), part.timeline.allocated().bytes_at(here));
  EXPECT_EQ(whole.timeline.reserved_at(there), part.timeline.reserved_at(here));
  EXPECT_EQ(whole.sources(there), part.sources(here));
  EXPECT_EQ(whole.names(there), part.names(here));
  EXPECT_EQ(pool_text(whole.record, moment_of(there)), pool_text(part.record, moment_of(here)));
  for (const FlameBy by : kFlameBys) EXPECT_EQ(whole.flame(there, by), part.flame(here, by));
  if (whole.timeline.times().is_known()) {
    EXPECT_EQ(
        whole.timeline.times().since_first(whole.timeline.times().of_event(event)),
        part.timeline.times().since_first(part.timeline.times().of_event(range.row_of(event))));
  }
}

}  // namespace gpumemprof
