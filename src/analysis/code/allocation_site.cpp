#include "analysis/code/allocation_site.h"

#include "analysis/code/user_frame.h"

namespace gpumemprof {
namespace {

constexpr std::uint32_t kUnknownPart = StackId::kNone - 1;
constexpr std::uint8_t kNotLookedUp = 2;

// Whether code of the program runs within backward: a hook, the backward of a custom function, or
// forward again under a checkpoint. Autograd's own threads begin with that code.
bool is_called_by_backward(const Store& store, StackId stack) {
  if (stack.is_none()) return false;
  bool has_user_code = false;
  for (StackId at = stack; !at.is_none(); at = store.stacks().caller(at)) {
    const Frame& frame = store.frame(store.stacks().frame(at));
    const std::string_view file = store.text(frame.file);
    if (!is_library_file(file)) {
      has_user_code = true;
    } else if (meaning_of_frame(file, store.text(frame.name)).role == FrameRole::backward) {
      return has_user_code;
    }
  }
  return has_user_code;
}

}  // namespace

AllocationSite AllocationSites::of(const DeviceRecord& record, std::size_t row) {
  StackId stack = record.allocations.stack[row];
  bool is_backward = false;
  const std::uint32_t birth = record.allocations.alloc_event[row];
  const Column<StackId>& forward = record.events.forward_stack;
  if (birth < forward.size() && !forward[birth].is_none() && !runs_in_backward(stack)) {
    stack = forward[birth];
    is_backward = true;
  }
  if (stack.is_none()) return {stack, is_backward};
  if (user_part_of_.size() <= stack.index) user_part_of_.resize(stack.index + 1, kUnknownPart);
  std::uint32_t& known = user_part_of_[stack.index];
  if (known == kUnknownPart) {
    const StackId line = line_part(store_, stack);
    known = (line.is_none() ? stack : line).index;
  }
  return {StackId(known), is_backward};
}

bool AllocationSites::runs_in_backward(StackId stack) {
  if (stack.is_none()) return false;
  if (in_backward_.size() <= stack.index) in_backward_.resize(stack.index + 1, kNotLookedUp);
  std::uint8_t& known = in_backward_[stack.index];
  if (known == kNotLookedUp) known = is_called_by_backward(store_, stack) ? 1 : 0;
  return known == 1;
}

}  // namespace gpumemprof
