#include "capture/stacks/frame_walker.h"

#include <algorithm>

#include "capture/foreign_memory.h"

namespace gpumemprof::capture {
namespace {

// A frame on its thread's own frame stack, where frames follow one another.
constexpr std::uint8_t kThreadOwner = 0;
// From this owner value on, a frame is a bridge between C and Python and has no code of its own.
constexpr std::uint8_t kFirstBridgeOwner = 3;
// 3.14 tags borrowed references in the low bits.
constexpr std::uintptr_t kReferenceMarks = 7;

// Offsets of 3.12 and 3.13: constants the compiler can put into its instructions.
struct CommonOffsets {
  // NOLINTBEGIN(readability-identifier-naming): they stand where AnyOffsets has members.
  static constexpr std::size_t previous = 8;
  static constexpr std::size_t code = 0;
  static constexpr std::size_t instruction = 56;
  static constexpr std::size_t owner = 70;
  static constexpr std::size_t locals = 72;
  // NOLINTEND(readability-identifier-naming)
  static constexpr std::uintptr_t kCodeMask = ~std::uintptr_t{0};

  static bool fit(const PythonLayout& layout) {
    return layout.minor <= 13 && layout.previous == previous && layout.code == code &&
           layout.instruction == instruction && layout.owner == owner && layout.locals == locals;
  }
};

struct AnyOffsets {
  explicit AnyOffsets(const PythonLayout& layout)
      : previous(layout.previous),
        code(layout.code),
        instruction(layout.instruction),
        owner(layout.owner),
        locals(layout.locals) {}
  std::size_t previous;
  std::size_t code;
  std::size_t instruction;
  std::size_t owner;
  std::size_t locals;
  static constexpr std::uintptr_t kCodeMask = ~kReferenceMarks;
};

template <typename Offsets>
class FrameChain {
 public:
  FrameChain(Offsets offsets, std::uintptr_t module_code, CachedStack& cached, FoundFrames& scratch)
      : offsets_(offsets), module_code_(module_code), cached_(cached), scratch_(scratch) {}

  // The usual case if compare() does not know the layout, mainly Python 3.11: nothing has changed,
  // except perhaps the innermost instruction. Without it an event there costs a tenth more.
  bool walk_same(std::uintptr_t frame, Walk& walk) {
    const std::size_t size = cached_.size();
    if (size == 0 || cached_.step(size - 1).frame != frame ||
        code_of(frame) != cached_.innermost_code() || !callers_are_same_from(size - 1) ||
        !cached_.has_same_modules())
      return false;
    const std::uintptr_t instruction = instruction_of(frame);
    walk.count = cached_.depth();
    walk.is_same = instruction == cached_.step(size - 1).instruction;
    walk.has_moved = !walk.is_same;
    walk.kept = walk.is_same ? walk.count : walk.count - 1;
    walk.fresh = walk.is_same ? size : size - 1;
    cached_.move_innermost(instruction);
    return true;
  }

  // Not inlined: rare code should not be fetched along with code that always runs.
  [[gnu::noinline]] Walk walk_anew(const std::uintptr_t innermost) {
    std::size_t found = 0;
    std::size_t depth = 0;            // frames, excluding bridges
    std::size_t joined = 0;           // steps of the cached stack that are kept
    std::size_t at = cached_.size();  // the cached stack is searched once, from its inner end on
    for (std::uintptr_t frame = innermost; frame != 0; frame = previous_of(frame)) {
      const auto owner = read_raw<std::uint8_t>(frame + offsets_.owner);
      const bool is_bridge = owner >= kFirstBridgeOwner;
      if (is_bridge && found == 0) continue;  // a cached stack ends with a frame that has code
      if (owner == kThreadOwner) at = find(frame, at);
      if (!is_bridge && at <= limit_ && is_old(frame, at) && callers_are_same_from(at - 1) &&
          has_same_modules(at)) {
        joined = at;
        depth += cached_.depth_at(at - 1);
        break;
      }
      if (found == scratch_.size()) break;
      if (!is_bridge) ++depth;
      scratch_[found++] = {frame, is_bridge ? FrameKey{0, instruction_of(frame)} : key_of(frame)};
    }
    if (joined + found == 0) return {};
    if (joined + found >= CachedStack::kMaxSteps || depth > kMaxDepth) return walk_cut(innermost);
    return cached_.replace(joined, scratch_.data(), found, offsets_.locals);
  }

 private:
  // A stack that may be too deep: bridges are left out, and if necessary the outermost frames too.
  [[gnu::noinline]] Walk walk_cut(std::uintptr_t frame) {
    std::size_t found = 0;
    for (; frame != 0 && found < kMaxDepth; frame = previous_of(frame)) {
      if (read_raw<std::uint8_t>(frame + offsets_.owner) >= kFirstBridgeOwner) continue;
      scratch_[found++] = {frame, key_of(frame)};
    }
    return cached_.replace(0, scratch_.data(), found, offsets_.locals);
  }

  // The hot loop: whether, starting from a step whose frame is unchanged, every caller is at the
  // same address, runs the same code and is at the same instruction, and the last one is still the
  // outermost. A frame is read only after its callee has shown that it is still there.
  bool callers_are_same_from(std::size_t index) {
    const CachedStack::Step* const steps = cached_.steps();
    std::uintptr_t frame = steps[index].frame;
    for (; index > 0; --index) {
      std::uintptr_t known = steps[index - 1].frame;
      if (previous_of(frame) != known) break;
      // Keeps the compiler from loading the address from the callee again, which the processor
      // would have to wait for.
      asm("" : "+r"(known));
      frame = known;
      // An instruction is inside its code, so the same instruction means the same code: a code
      // object that replaced a destroyed one is the caller's concern.
      if (instruction_of(frame) != steps[index - 1].instruction) break;
    }
    limit_ = index;
    return index == 0 && previous_of(frame) == 0;
  }

  // For the first `steps`, whose frames are known to be unchanged.
  bool has_same_modules(std::size_t steps) {
    const std::size_t other = cached_.first_other_module(steps);
    if (other < steps) limit_ = other;
    return other == steps;
  }

  // One more than the innermost step of the cached stack below `at` that may be this frame: callers
  // are placed below the frames they call, and bridges, on the C stack, mostly above them all. If
  // that does not hold, only time is lost.
  [[nodiscard]] std::size_t find(std::uintptr_t frame, std::size_t at) const {
    while (at > 0 && cached_.step(at - 1).frame > frame) --at;
    return at;
  }
  [[nodiscard]] bool is_old(std::uintptr_t frame, std::size_t at) const {
    return at > 0 && cached_.step(at - 1).frame == frame &&
           instruction_of(frame) == cached_.step(at - 1).instruction;
  }

  [[nodiscard]] std::uintptr_t previous_of(std::uintptr_t frame) const {
    return read_raw<std::uintptr_t>(frame + offsets_.previous);
  }
  [[nodiscard]] std::uintptr_t instruction_of(std::uintptr_t frame) const {
    return read_raw<std::uintptr_t>(frame + offsets_.instruction);
  }
  [[nodiscard]] std::uintptr_t code_of(std::uintptr_t frame) const {
    return read_raw<std::uintptr_t>(frame + offsets_.code) & Offsets::kCodeMask;
  }

  [[nodiscard]] FrameKey key_of(std::uintptr_t frame) const {
    const std::uintptr_t code = code_of(frame);
    std::uintptr_t module = 0;
    if (code == module_code_)
      module = read_raw<std::uintptr_t>(frame + offsets_.locals) & Offsets::kCodeMask;
    return {code, instruction_of(frame), module};
  }

  Offsets offsets_;
  std::uintptr_t module_code_;  // 0: no frame has a module
  CachedStack& cached_;
  FoundFrames& scratch_;
  // From here on the cached stack is known not to lead to its outer end.
  std::size_t limit_ = CachedStack::kMaxSteps;
};

template <typename Offsets>
Walk walk_chain(Offsets offsets, std::uintptr_t module_code, std::uintptr_t innermost,
                CachedStack& cached, FoundFrames& scratch) {
  FrameChain<Offsets> chain(offsets, module_code, cached, scratch);
  Walk walk;
  if (chain.walk_same(innermost, walk)) [[likely]]
    return walk;
  return chain.walk_anew(innermost);
}

}  // namespace

FrameWalker::FrameWalker(const PythonLayout& layout)
    : runtime_begin_(layout.runtime_begin),
      runtime_end_(layout.runtime_end),
      ask_(layout.this_thread_state),
      thread_frame_(layout.thread_frame),
      cframe_frame_(layout.cframe_frame),
      first_instruction_(layout.first_instruction),
      has_cframe_(layout.has_cframe),
      shape_(layout.has_frame_objects     ? Shape::frame_objects
             : CommonOffsets::fit(layout) ? Shape::common
                                          : Shape::any),
      codes_(layout) {}

// Not inlined: a program mostly runs on Python's first thread.
[[gnu::noinline]] std::uintptr_t FrameWalker::find_state(std::uintptr_t& kept_state) const {
  const auto state = reinterpret_cast<std::uintptr_t>(thread_state());
  if (state >= runtime_begin_ && state < runtime_end_) kept_state = state;
  return state;
}

inline std::uintptr_t FrameWalker::innermost_of(std::uintptr_t state) const {
  const auto innermost = read_raw<std::uintptr_t>(state + thread_frame_);
  return has_cframe_ && innermost != 0 ? read_raw<std::uintptr_t>(innermost + cframe_frame_)
                                       : innermost;
}

// The path almost every event takes, so it is kept as short as possible: its instructions have to
// be fetched again and again. A frame is read only after its callee has shown that it is still
// there. An instruction is inside its code, so the same instruction means the same code: a code
// object that replaced a destroyed one is the caller's concern.
[[gnu::hot]] FrameWalker::Comparison FrameWalker::compare(std::uintptr_t state,
                                                          const CachedStack& cached) const {
  if (shape_ != Shape::common || cached.size() == 0) [[unlikely]]
    return Comparison::other;
  const CachedStack::Step* step = cached.steps() + cached.size() - 1;
  std::uintptr_t frame = step->frame;
  if (innermost_of(state) != frame) return Comparison::other;
  auto found = Comparison::same;
  if (read_raw<std::uintptr_t>(frame + CommonOffsets::instruction) != step->instruction) {
    if (read_raw<std::uintptr_t>(frame + CommonOffsets::code) != cached.innermost_code())
      return Comparison::other;
    found = Comparison::moved;
  }
  for (;;) {
    const auto caller = read_raw<std::uintptr_t>(frame + CommonOffsets::previous);
    --step;
    // Not the value just read, which the processor would have to wait for.
    frame = step->frame;
    asm("" : "+r"(frame));
    if (caller != frame) return Comparison::other;
    if (frame == 0) return cached.has_same_modules() ? found : Comparison::other;
    if (read_raw<std::uintptr_t>(frame + CommonOffsets::instruction) != step->instruction)
      return Comparison::other;
  }
}

void FrameWalker::move_along(CachedStack& cached) {
  const std::uintptr_t innermost = cached.step(cached.size() - 1).frame;
  cached.move_innermost(read_raw<std::uintptr_t>(innermost + CommonOffsets::instruction));
}

Walk FrameWalker::walk(std::uintptr_t state, CachedStack& cached, FoundFrames& scratch) const {
  const std::uintptr_t innermost = state == 0 ? 0 : innermost_of(state);
  if (innermost == 0) return {};
  if (shape_ == Shape::common)
    return walk_chain(CommonOffsets{}, module_code(), innermost, cached, scratch);
  if (shape_ == Shape::any)
    return walk_chain(AnyOffsets(codes_.layout()), module_code(), innermost, cached, scratch);
  return walk_frame_objects(innermost, cached, scratch);
}

Walk FrameWalker::walk_frame_objects(std::uintptr_t frame, CachedStack& cached,
                                     FoundFrames& scratch) const {
  const PythonLayout& layout = codes_.layout();
  std::size_t found = 0;
  for (; frame != 0 && found < kMaxDepth;
       frame = read_raw<std::uintptr_t>(frame + layout.previous)) {
    const auto instruction = read_raw<std::int32_t>(frame + layout.instruction);
    const auto code = read_raw<std::uintptr_t>(frame + layout.code);
    const std::uintptr_t module =
        code == module_code() ? read_raw<std::uintptr_t>(frame + layout.locals) : 0;
    scratch[found++] = {
        frame,
        {code, static_cast<std::uintptr_t>(std::max(instruction, 0)) * layout.instruction_unit,
         module}};
  }
  return cached.replace(0, scratch.data(), found, layout.locals);
}

}  // namespace gpumemprof::capture
