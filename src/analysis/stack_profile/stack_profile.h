// StackProfile: how much memory each call stack allocated up to a moment, and how much of it was
// still in use then, by source and tag. One sample a stack, source and tag, however long the run.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "analysis/overview/overview.h"
#include "event/memory_source.h"
#include "store/store.h"

namespace gpumemprof {

struct StackSample {
  DeviceIndex device = 0;
  StackId stack;  // none: no stack was recorded
  bool is_backward = false;
  MemorySource source = MemorySource::unknown;
  bool is_source_measured = false;  // a label in the recording says so; else inferred
  StringId tag;
  // Blocks and their bytes. What was live when the recording began counts as allocated.
  std::uint64_t alloc_objects = 0;
  std::uint64_t alloc_bytes = 0;
  std::uint64_t inuse_objects = 0;
  std::uint64_t inuse_bytes = 0;
};

// The moment of one device, by the numbers of the run.
struct ProfiledMoment {
  DeviceIndex device = 0;
  AskedMoment::Kind kind = AskedMoment::Kind::peak;
  std::uint32_t event = kNoEvent;       // after it; kNoEvent: before the first
  std::int64_t time_ns = kUnknownTime;  // of that event
  bool is_end = false;                  // after the last event, whatever `event` says

  [[nodiscard]] bool is_born_by(std::uint32_t birth) const {
    return birth == kNoEvent || is_end || (event != kNoEvent && birth <= event);
  }
  [[nodiscard]] bool is_freed_by(std::uint32_t free) const {
    return free != kNoEvent && (is_end || (event != kNoEvent && free <= event));
  }
};

struct StackProfile {
  std::vector<ProfiledMoment> moments;  // one for each device that is profiled
  std::vector<StackSample> samples;     // by device, then most bytes in use first
};

// The moment that a report about the device would show.
ProfiledMoment profiled_moment(DeviceIndex device, const DeviceReplay& replay, AskedMoment asked);

class StackProfileSum {
 public:
  explicit StackProfileSum(std::vector<ProfiledMoment> moments) : moments_(std::move(moments)) {}

  // Rows of one device's record, with their births and frees by the numbers of the run.
  void add(const DeviceRecord& record, const std::vector<std::uint32_t>& rows,
           const std::vector<std::uint32_t>& births, const std::vector<std::uint32_t>& frees);
  // Finds the time of the moment, if it is one of these events, the first of which has this number.
  void note_time(const DeviceRecord& record, std::size_t first_event, std::size_t events,
                 std::uint32_t first_number);
  StackProfile finish();

 private:
  struct Key {
    std::uint64_t stack = 0;
    std::uint64_t rest = 0;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const {
      constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15U;
      return static_cast<std::size_t>((key.stack * kOdd) ^ (key.rest + (key.stack >> 29U)));
    }
  };

  std::vector<ProfiledMoment> moments_;
  std::unordered_map<Key, std::size_t, KeyHash> places_;
  std::vector<StackSample> samples_;
};

}  // namespace gpumemprof
