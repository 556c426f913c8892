// A long recording is a folder of chapters: files that are whole recordings, each of which also
// says where in the run it begins. What is live there is listed as the state at its start; this is
// what the list does not say.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "event/recording.h"

namespace gpumemprof {

// The reason a chapter ends with if another one follows.
inline constexpr std::string_view kContinued = "continued in the next chapter";

// An allocation that was live when the chapter began, as its event had described it.
struct LiveAllocation {
  DeviceIndex device = 0;
  std::uint64_t address = 0;
  std::int64_t time_ns = kUnknownTime;  // of its event; unknown: from before the recording
  std::uint32_t stream = 0;
  StackId forward_stack;
  StringId user_metadata;
  std::uint32_t module = kNoModule;
};

// One device, over all chapters before this one.
struct ChapterDevice {
  DeviceIndex device = 0;
  EventCounts made;        // by the program; some may have been lost
  std::uint64_t rows = 0;  // events in those chapters' files
  std::int64_t last_time_ns = kUnknownTime;
};

struct ChapterStart {
  std::uint32_t number = 0;  // counted from 1
  // The state at the start follows from every event before it. False: some were lost.
  bool is_exact = false;
  // The first sets of labels in the file, and where they apply, repeat what earlier chapters said.
  std::uint32_t repeated_sets = 0;
  std::vector<ChapterDevice> devices;
  std::vector<LiveAllocation> live;
};

}  // namespace gpumemprof
