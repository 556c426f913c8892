// RunStats: every allocation of a run, counted: how many and how large, by size, by lifetime and by
// line of code. Memory grows with the lines of code, not with the allocations.
#pragma once

#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analysis/table/allocation_row.h"
#include "store/store.h"

namespace gpumemprof {

struct CountedBytes {
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;  // of blocks

  void add(std::uint64_t size_bytes) {
    ++count;
    bytes += size_bytes;
  }
};

// A line of user code, and all that it ever allocated.
struct LineStats {
  FrameId frame;  // none: no stack was recorded
  bool is_backward = false;
  CountedBytes made;
  std::uint64_t largest_bytes = 0;
  CountedBytes not_freed;
  CountedBytes at_moment;  // live at the moment that was asked about
  // Of what was freed, as far as times are known.
  std::uint64_t timed = 0;
  double lifetime_sum_ns = 0;

  [[nodiscard]] std::int64_t mean_lifetime_ns() const {
    if (timed == 0) return kUnknownTime;
    return static_cast<std::int64_t>(lifetime_sum_ns / static_cast<double>(timed));
  }
};

// A lifetime below `below_ns`, and not below that of the bin before it.
struct LifetimeBin {
  std::int64_t below_ns = 0;  // kUnknownTime: all that are longer
  CountedBytes freed;
};

struct DeviceStats {
  DeviceIndex device = 0;
  CountedBytes made;  // by the history, without what was live before it
  std::uint64_t requested_bytes = 0;
  CountedBytes from_before;
  CountedBytes freed;      // of all
  CountedBytes not_freed;  // of all: live at the end
  // By the exponent of the power of two at or below which the block's size lies.
  std::map<unsigned, CountedBytes> by_size;
  std::vector<LifetimeBin> lifetimes;
  CountedBytes untimed;  // freed, but it is not known after how long
  std::vector<LineStats> lines;
};

class RunStats {
 public:
  // Each device's moment, for `at_moment`; devices without one have none live then.
  explicit RunStats(std::map<DeviceIndex, Moment> moments) : moments_(std::move(moments)) {}

  void add(const Store& store, const AllocationRow& row);
  // In order of device; the lines in the order in which they were first seen.
  [[nodiscard]] std::vector<DeviceStats> take();

 private:
  struct Device {
    DeviceStats stats;
    std::unordered_map<std::uint64_t, std::size_t> line_of_frame;
  };
  [[nodiscard]] FrameId line_of(const Store& store, StackId stack);

  std::map<DeviceIndex, Moment> moments_;
  std::map<DeviceIndex, Device> devices_;
  std::unordered_map<std::uint32_t, FrameId> line_of_stack_;
};

}  // namespace gpumemprof
