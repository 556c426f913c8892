#include "capture/stacks/frame_walker.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <memory>
#include <random>
#include <ranges>
#include <vector>

namespace gpumemprof::capture {
namespace {

constexpr std::uint8_t kOnThread = 0;
constexpr std::uint8_t kInGenerator = 1;
constexpr std::uint8_t kIsBridge = 3;
// Frames of this code object are module calls.
constexpr std::uintptr_t kModuleCode = 0x2000;

// A frame with the layout of 3.12 and 3.13, or with every field at another offset.
struct alignas(8) FakeFrame {
  std::array<std::uint64_t, 16> words{};
};

struct Offsets {
  std::uint16_t code, previous, instruction, owner, locals;
};
constexpr Offsets kCommon = {0, 8, 56, 70, 72};
constexpr Offsets kOther = {16, 40, 8, 90, 104};

// A thread whose frames follow one another on a stack of its own, with bridges on the C stack
// and generators anywhere.
class FakePython {
 public:
  explicit FakePython(const Offsets& offsets) : offsets_(offsets), stack_(2000) { s_running = 0; }

  PythonLayout layout() {
    PythonLayout layout;
    layout.minor = 13;
    layout.code = offsets_.code;
    layout.previous = offsets_.previous;
    layout.instruction = offsets_.instruction;
    layout.owner = offsets_.owner;
    layout.locals = offsets_.locals;
    layout.this_thread_state = []() -> void* { return &s_running; };
    return layout;
  }

  // The first local of every frame is the module, or something else.
  void call(std::uintptr_t code, std::uint8_t owner, std::uintptr_t local) {
    FakeFrame* frame = owner == kOnThread ? &stack_.at(on_stack_++) : &place_for(owner);
    put(*frame, offsets_.code, code);
    put(*frame, offsets_.previous, s_running);
    put(*frame, offsets_.instruction, code + 8);
    put(*frame, offsets_.locals, local);
    reinterpret_cast<std::uint8_t*>(frame)[offsets_.owner] = owner;
    running_.push_back({frame, {code, code + 8, code == kModuleCode ? local : 0}, owner});
    s_running = reinterpret_cast<std::uintptr_t>(frame);
  }

  void give_back() {
    if (running_.back().owner == kOnThread) --on_stack_;
    put(*running_.back().frame, offsets_.instruction, 0xDEAD);
    running_.pop_back();
    s_running = running_.empty() ? 0 : reinterpret_cast<std::uintptr_t>(running_.back().frame);
  }

  void go_to(std::uintptr_t instruction) {
    running_.back().key.instruction = instruction;
    put(*running_.back().frame, offsets_.instruction, instruction);
  }

  [[nodiscard]] std::size_t depth() const { return running_.size(); }
  [[nodiscard]] const FrameKey& top() const { return running_.back().key; }

  // Innermost first.
  [[nodiscard]] std::vector<FrameKey> stack() const {
    std::vector<FrameKey> keys;
    for (const Running& frame : std::views::reverse(running_)) {
      if (frame.owner != kIsBridge && keys.size() < kMaxDepth) keys.push_back(frame.key);
    }
    return keys;
  }

 private:
  struct Running {
    FakeFrame* frame;
    FrameKey key;
    std::uint8_t owner;
  };

  static void put(FakeFrame& frame, std::size_t offset, std::uintptr_t word) {
    std::memcpy(reinterpret_cast<char*>(&frame) + offset, &word, sizeof(word));
  }

  // Bridges rotate through a few places, generators stay where they are.
  FakeFrame& place_for(std::uint8_t owner) {
    if (owner == kInGenerator || bridges_.size() < 7) {
      (owner == kInGenerator ? generators_ : bridges_).emplace_back();
    }
    if (owner == kInGenerator) return generators_.back();
    for (std::size_t turn = 0; turn < bridges_.size(); ++turn) {
      FakeFrame& place = bridges_[next_bridge_++ % bridges_.size()];
      const bool is_used = std::any_of(running_.begin(), running_.end(),
                                       [&](const Running& each) { return each.frame == &place; });
      if (!is_used) return place;
    }
    return bridges_.emplace_back();
  }

  static inline std::uintptr_t s_running = 0;
  Offsets offsets_;
  std::vector<FakeFrame> stack_;
  std::deque<FakeFrame> bridges_;
  std::deque<FakeFrame> generators_;
  std::size_t next_bridge_ = 0;
  std::size_t on_stack_ = 0;
  std::vector<Running> running_;
};

// Walks as the recorder does: each walk starts from the result of the previous one.
class Follower {
 public:
  explicit Follower(const PythonLayout& layout) : walker_(layout) {
    walker_.set_module_code(kModuleCode);
  }

  void expect(const std::vector<FrameKey>& stack) {
    const std::uintptr_t state = walker_.find_state(state_);
    using Comparison = FrameWalker::Comparison;
    const Comparison comparison = state == 0 ? Comparison::other : walker_.compare(state, *cached_);
    if (comparison != Comparison::other) ++compared_at_once_;
    const Walk walk = walker_.walk(state, *cached_, *scratch_);
    ASSERT_EQ(walk.count, stack.size());
    ASSERT_TRUE(comparison != Comparison::same || walk.is_same);
    ASSERT_TRUE(comparison != Comparison::moved || walk.has_moved);
    if (stack.empty()) return;  // the last stack stays as it was
    std::vector<FrameKey> found;
    std::size_t before_fresh = 0;
    for (std::size_t index = 0; index < cached_->size(); ++index) {
      if (cached_->is_bridge(index)) continue;
      found.push_back(cached_->key(index));
      ASSERT_EQ(cached_->depth_at(index), found.size());
      if (index < walk.fresh) ++before_fresh;
    }
    std::reverse(found.begin(), found.end());
    ASSERT_EQ(found, stack);
    ASSERT_EQ(cached_->innermost(), stack[0]);
    std::size_t kept = 0;
    while (kept < std::min(stack.size(), last_.size()) &&
           stack[stack.size() - 1 - kept] == last_[last_.size() - 1 - kept]) {
      ++kept;
    }
    EXPECT_EQ(walk.kept, kept);
    EXPECT_EQ(before_fresh, kept);
    EXPECT_EQ(walk.is_same, stack == last_);
    EXPECT_EQ(walk.has_moved, !walk.is_same && kept + 1 == stack.size() &&
                                  stack.size() == last_.size() && stack[0].code == last_[0].code &&
                                  stack[0].module == last_[0].module);
    last_ = found;
  }
  // How often no walk was needed.
  [[nodiscard]] std::size_t told_at_once() const { return compared_at_once_; }

 private:
  FrameWalker walker_;
  std::size_t compared_at_once_ = 0;
  std::uintptr_t state_ = 0;
  std::unique_ptr<CachedStack> cached_ = std::make_unique<CachedStack>();
  std::unique_ptr<FoundFrames> scratch_ = std::make_unique<FoundFrames>();
  std::vector<FrameKey> last_;
};

class FrameWalkerOf : public testing::TestWithParam<Offsets> {
 protected:
  FakePython python_{GetParam()};
  Follower follower_{python_.layout()};

  void call(std::uintptr_t code, std::uint8_t owner = kOnThread, std::uintptr_t local = 0x500) {
    python_.call(code, owner, local);
  }
  void expect_stack() { follower_.expect(python_.stack()); }
};

TEST_P(FrameWalkerOf, a_thread_without_frames_has_no_stack) { expect_stack(); }

TEST_P(FrameWalkerOf, the_same_stack_is_found_again) {
  for (std::uintptr_t code = 0x1000; code < 0x5000; code += 0x1000) call(code);
  expect_stack();
  expect_stack();
  python_.go_to(0x4010);
  expect_stack();
  expect_stack();
  EXPECT_EQ(follower_.told_at_once(), GetParam().owner == kCommon.owner ? 3U : 0U);
}

TEST_P(FrameWalkerOf, another_callee_joins_the_callers_it_shares) {
  for (std::uintptr_t code = 0x1000; code < 0x9000; code += 0x1000) call(code);
  expect_stack();
  python_.give_back();
  call(0xA000);
  call(0xB000, kIsBridge);
  call(0xC000);
  expect_stack();
  expect_stack();
  python_.give_back();
  python_.give_back();
  expect_stack();
}

TEST_P(FrameWalkerOf, a_caller_that_went_on_is_seen_behind_callees_in_the_same_places) {
  call(0x1000);
  call(0x2000);
  call(0x3000);
  expect_stack();
  python_.give_back();
  python_.give_back();
  python_.go_to(0x1020);
  call(0x2000);
  call(0x3000);
  expect_stack();
}

TEST_P(FrameWalkerOf, another_module_is_seen_behind_frames_in_the_same_places) {
  const auto call_modules = [&](std::uintptr_t outer, std::uintptr_t inner) {
    call(0x1000);
    call(kModuleCode, kOnThread, outer);
    call(0x3000);
    call(kModuleCode, kOnThread, inner);
    call(0x4000);
    expect_stack();
    expect_stack();
    while (python_.depth() > 0) python_.give_back();
  };
  // Aligned, as objects are: the lowest bits of a reference are tags.
  call_modules(0xA00, 0xA10);
  call_modules(0xA00, 0xA20);
  call_modules(0xB00, 0xA20);
  call_modules(0xB00, 0xA20);
}

TEST_P(FrameWalkerOf, a_stack_deeper_than_is_kept_is_cut_at_its_outer_end) {
  for (std::size_t turn = 0; turn < kMaxDepth + 20; ++turn) call(0x1000 + 0x100 * turn);
  expect_stack();
  expect_stack();
  call(0x70);
  expect_stack();
  while (python_.depth() > kMaxDepth - 5) python_.give_back();
  expect_stack();
  for (std::size_t turn = 0; turn < 10; ++turn) call(0x9000000 + 0x100 * turn);
  expect_stack();
}

// Whatever a program does between two events, the walk returns the actual stack.
TEST_P(FrameWalkerOf, every_stack_of_a_random_program_is_read_as_it_is) {
  std::mt19937 draw(7);
  const auto one_of = [&](std::uint32_t count) {
    return static_cast<std::uint32_t>(draw() % count);
  };
  for (int event = 0; event < 30000; ++event) {
    for (std::uint32_t turn = one_of(5); turn > 0; --turn) {
      const std::uint32_t what = one_of(20);
      const std::size_t wanted = (event / 3000) % 2 == 0 ? 12 : 60;
      if (what < 9 && python_.depth() < wanted) {
        constexpr std::uint8_t kOwners[] = {kOnThread, kOnThread,    kOnThread,
                                            kOnThread, kInGenerator, kIsBridge};
        call(0x1000 + std::uintptr_t{0x1000} * one_of(4), kOwners[one_of(6)],
             0x500 + std::uintptr_t{0x10} * one_of(3));
      } else if (what < 16 && python_.depth() > 0) {
        python_.give_back();
      } else if (python_.depth() > 0) {
        python_.go_to(python_.top().code + std::uintptr_t{8} * one_of(3));
      }
    }
    expect_stack();
    if (HasFatalFailure()) FAIL() << "at event " << event;
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, FrameWalkerOf, testing::Values(kCommon, kOther),
                         [](const auto& layout) { return layout.index == 0 ? "common" : "other"; });

}  // namespace
}  // namespace gpumemprof::capture
