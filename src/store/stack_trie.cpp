#include "store/stack_trie.h"

namespace gpumemprof {

StackId StackTrie::add(StackId caller, FrameId frame) {
  GMP_CHECK(!frame.is_none());
  GMP_CHECK(caller.is_none() || caller.index < size());
  const std::uint64_t step = (std::uint64_t{caller.index} << 32) | frame.index;
  const auto fresh = static_cast<std::uint32_t>(size());
  const std::uint32_t node = by_step_.find_or_insert(step, fresh);
  if (node == fresh) {
    callers_.push_back(caller);
    frames_.push_back(frame);
  }
  return StackId(node);
}

std::vector<FrameId> StackTrie::frames_of(StackId stack) const {
  std::vector<FrameId> frames;
  for (; !stack.is_none(); stack = caller(stack)) frames.push_back(frame(stack));
  return frames;
}

}  // namespace gpumemprof
