// CallTree: what is live at a moment as a tree of calls, outermost first.
//
// Made from the groups of a LiveSet, so that its figures are the report's, also where a long
// recording was read in windows.
#pragma once

#include <vector>

#include "analysis/peak/live_set.h"
#include "store/store.h"

namespace gpumemprof {

struct CallNode {
  static constexpr std::uint32_t kNoParent = 0xffffffffU;
  static constexpr std::uint32_t kNoGroup = 0xffffffffU;
  std::uint32_t parent = kNoParent;
  FrameId frame;             // none: no stack was recorded, or `is_backward`
  bool is_backward = false;  // allocated in the backward of what the parent called
  std::uint64_t bytes = 0;   // including its children
  std::uint64_t blocks = 0;
  std::uint64_t self_bytes = 0;  // allocated by this frame itself
  std::uint64_t self_blocks = 0;
  std::uint32_t group = kNoGroup;  // row of the LiveSet's groups that ends here
};

struct CallTree {
  std::vector<CallNode> nodes;  // depth first; siblings by bytes, most first
  std::uint64_t allocated_bytes = 0;
  std::uint64_t blocks = 0;
};

CallTree make_call_tree(const LiveSet& live, const Store& store);

}  // namespace gpumemprof
