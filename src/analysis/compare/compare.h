// Compare: what is live at two moments, of one run or of two, side by side.
//
// Groups of the two sides are the same if their frames read the same: name, file and line.
#pragma once

#include <string>
#include <vector>

#include "analysis/moment/live_rows.h"
#include "analysis/timeline/grouping.h"
#include "store/store.h"

namespace gpumemprof {

struct ComparedSide {
  const Store* store = nullptr;
  const DeviceRecord* record = nullptr;
  const LiveRows* live = nullptr;
  Position position = 0;
};

struct ComparedGroup {
  std::string name;          // of a source or size class; else empty: see the stack of one side
  FrameId frame;             // the line or module
  StackId stack;             // by stack: the full stack
  bool is_of_first = true;   // which store the ids belong to
  bool is_backward = false;  // allocated in backward; the line or stack is that of the forward
  std::uint64_t first_bytes = 0;
  std::uint64_t first_blocks = 0;
  std::uint64_t second_bytes = 0;
  std::uint64_t second_blocks = 0;
};

struct Comparison {
  std::vector<ComparedGroup> groups;  // largest difference first
  std::uint64_t first_bytes = 0;
  std::uint64_t second_bytes = 0;
};

Comparison compare(const ComparedSide& first, const ComparedSide& second, GroupBy by);

}  // namespace gpumemprof
