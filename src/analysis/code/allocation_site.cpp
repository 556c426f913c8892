#include "analysis/code/allocation_site.h"

#include "analysis/code/user_frame.h"

namespace gpumemprof {
namespace {

constexpr std::uint32_t kUnknownLine = StackId::kNone - 1;

}  // namespace

AllocationSite AllocationSites::of(Whence from) {
  if (from.stack.is_none()) return {from.stack, from.is_backward};
  if (line_of_.size() <= from.stack.index) line_of_.resize(from.stack.index + 1, kUnknownLine);
  std::uint32_t& known = line_of_[from.stack.index];
  if (known == kUnknownLine) {
    const StackId line = line_part(store_, from.stack);
    known = (line.is_none() ? from.stack : line).index;
  }
  return {StackId(known), from.is_backward};
}

}  // namespace gpumemprof
