// What is live at a moment, and which code holds it.
#pragma once

#include <vector>

#include "store/store.h"

namespace gpumemprof {

struct LiveGroup {
  StackId stack;  // none: no stack was recorded
  bool is_backward = false;
  std::uint64_t bytes = 0;
  std::uint64_t blocks = 0;
  std::uint64_t requested_bytes = 0;
  std::vector<StringId> tags;  // that its blocks were allocated under (gpumemprof.tag), each once
};

struct LiveSet {
  std::vector<LiveGroup> groups;  // by stack, most bytes first
  std::uint64_t allocated_bytes = 0;
  std::uint64_t blocks = 0;
};

LiveSet live_at(const DeviceRecord& record, Moment moment);

// A line of code, and the bytes that are live because of it.
struct LivePlace {
  FrameId frame;  // none: no stack was recorded
  bool is_backward = false;
  std::uint64_t bytes = 0;
  std::uint64_t blocks = 0;
};

// A line of user code with the places, mostly in libraries, where it led to allocations.
struct LiveLine {
  LivePlace line;
  std::vector<LivePlace> places;  // by innermost frame, most bytes first
  std::vector<StringId> tags;     // of all its groups, each once
};

std::vector<LiveLine> live_by_user_line(const LiveSet& live, const Store& store);

}  // namespace gpumemprof
