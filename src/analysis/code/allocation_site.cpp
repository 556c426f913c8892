#include "analysis/code/allocation_site.h"

#include "analysis/code/user_frame.h"

namespace gpumemprof {
namespace {

constexpr std::uint32_t kUnknownPart = StackId::kNone - 1;

}  // namespace

AllocationSite AllocationSites::of(std::size_t row) {
  StackId stack = record_.allocations.stack[row];
  bool is_backward = false;
  const std::uint32_t birth = record_.allocations.alloc_event[row];
  const Column<StackId>& forward = record_.events.forward_stack;
  if (birth < forward.size() && !forward[birth].is_none()) {
    stack = forward[birth];
    is_backward = true;
  }
  if (stack.is_none()) return {stack, is_backward};
  if (user_part_of_.size() <= stack.index) user_part_of_.resize(stack.index + 1, kUnknownPart);
  std::uint32_t& known = user_part_of_[stack.index];
  if (known == kUnknownPart) {
    const StackId python = python_part(store_, stack);
    known = (python.is_none() ? stack : user_part(store_, python)).index;
  }
  return {StackId(known), is_backward};
}

}  // namespace gpumemprof
