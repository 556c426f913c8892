// Memory after every event, where an event changes several things at once.
#include "analysis/walk/memory_walk.h"

#include <gtest/gtest.h>

namespace gpumemprof {
namespace {

void add_segment(SegmentColumns& segments, std::uint64_t size_bytes, std::uint32_t birth_event,
                 std::uint32_t death_event) {
  segments.address.push_back(segments.size() * 1024);
  segments.size_bytes.push_back(size_bytes);
  segments.birth_event.push_back(birth_event);
  segments.death_event.push_back(death_event);
}

struct Reserved {
  std::vector<std::uint64_t> bytes;

  void started(const LiveMemory& live) { bytes.push_back(live.reserved_bytes); }
  void changed(std::uint32_t /*event*/, std::uint32_t /*row*/, bool /*is_birth*/,
               const LiveMemory& /*live*/) {}
  void reserved(std::uint32_t /*event*/, const LiveMemory& live) {
    bytes.push_back(live.reserved_bytes);
  }
  void passed(std::uint32_t /*event*/, const LiveMemory& /*live*/) {}
};

TEST(MemoryWalk, counts_what_is_left_of_a_segment_once) {
  DeviceRecord record;
  add_segment(record.segments, 100, kNoEvent, 1);
  // What is left of it, on both sides of the pages that event 1 gives back.
  add_segment(record.segments, 30, 1, kNoEvent);
  add_segment(record.segments, 50, 1, 2);
  MemoryWalk walk;
  Reserved seen;
  walk.pass({record, 0, 3, true}, seen);
  EXPECT_EQ(seen.bytes, (std::vector<std::uint64_t>{100, 80, 30}));
}

}  // namespace
}  // namespace gpumemprof
