// StackTrie: every distinct call stack once, as a path from the outermost frame to the innermost.
//
//   main ── train ── forward ── linear      a StackId names a node; its path to the root is
//                 └─ backward               the stack
#pragma once

#include <vector>

#include "base/column.h"
#include "base/flat_map.h"
#include "base/id.h"

namespace gpumemprof {

class StackTrie {
 public:
  StackId add(StackId caller, FrameId frame);

  [[nodiscard]] StackId caller(StackId stack) const { return callers_[stack.index]; }
  [[nodiscard]] FrameId frame(StackId stack) const { return frames_[stack.index]; }
  [[nodiscard]] std::size_t size() const { return frames_.size(); }
  // Innermost first, as PyTorch lists them.
  [[nodiscard]] std::vector<FrameId> frames_of(StackId stack) const;

  [[nodiscard]] const Column<StackId>& callers() const { return callers_; }
  [[nodiscard]] const Column<FrameId>& frames() const { return frames_; }

 private:
  Column<StackId> callers_;
  Column<FrameId> frames_;
  FlatMap<std::uint32_t> by_step_;  // (caller, frame) → node
};

}  // namespace gpumemprof
