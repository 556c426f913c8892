#include "capture/stacks/cached_stack.h"

namespace gpumemprof::capture {

std::size_t CachedStack::agreeing(std::size_t steps, const FoundFrame* found,
                                  std::size_t count) const {
  std::size_t same = 0;
  std::size_t index = next_frame(steps);
  for (std::size_t left = count; left > 0; --left) {
    const FrameKey& each = found[left - 1].key;
    if (each.code == 0) continue;
    if (index == size_ || key(index) != each) break;
    ++same;
    index = next_frame(index + 1);
  }
  return same;
}

std::size_t CachedStack::first_other_module(std::size_t steps) const {
  for (std::size_t index = 0; index < module_count_ && modules_[index].step < steps; ++index) {
    const ModulePlace& at = modules_[index];
    if (read_raw<std::uintptr_t>(at.place) != at.raw) return at.step;
  }
  return steps;
}

Walk CachedStack::replace(std::size_t steps, const FoundFrame* found, std::size_t count,
                          std::size_t locals) {
  const std::size_t depth_before = depth_;
  const std::uintptr_t code_before = innermost_code_;
  const std::uintptr_t module_before = size_ == 0 ? 0 : codes_[size_ - 1].module;
  depth_ = steps == 0 ? 0 : depth_at(steps - 1);
  Walk walk;
  walk.kept = depth_ + agreeing(steps, found, count);
  walk.fresh = steps;
  size_ = steps;
  while (module_count_ > 0 && modules_[module_count_ - 1].step >= steps) --module_count_;
  for (std::size_t left = count; left > 0; --left) {
    const FoundFrame& each = found[left - 1];
    if (each.key.code != 0) ++depth_;
    codes_[size_] = {each.key.code, depth_, each.key.module};
    if (each.key.module != 0) {
      const std::uintptr_t place = each.frame + locals;
      modules_[module_count_++] = {place, read_raw<std::uintptr_t>(place), size_};
    }
    steps_[++size_] = {each.frame, each.key.instruction};
    if (depth_ == walk.kept) walk.fresh = size_;
  }
  innermost_code_ = size_ == 0 ? 0 : codes_[size_ - 1].address;
  walk.count = depth_;
  if (walk.count != depth_before) return walk;
  walk.is_same = walk.kept == depth_;
  walk.has_moved = walk.kept + 1 == depth_ && innermost_code_ == code_before &&
                   codes_[size_ - 1].module == module_before;
  return walk;
}

}  // namespace gpumemprof::capture
