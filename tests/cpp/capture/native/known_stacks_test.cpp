// A stack that is taken as proven must be the one that a walk finds, whatever the program does.
#include "capture/native/known_stacks.h"

#include <alloca.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <array>
#include <atomic>
#include <csetjmp>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

#include "capture/native/native_walker.h"

#if defined(__x86_64__)
namespace gpumemprof::capture {
namespace {

using Addresses = std::vector<std::uintptr_t>;

// Takes the stack at each event, and compares it with a walk.
class Watcher {
 public:
  explicit Watcher(NativeWalker& walker) : walker_(walker) {}
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;
  ~Watcher() { mine_->give_memory_back(); }

  // Not inlined: both walks begin at its frame, at different lines.
  [[gnu::noinline]] void event() {
    mine_->walked_count = 0;
    const NativeNumber number = walker_.find(*mine_);
    const std::size_t count = walker_.walk(found_, mine_->end);
    ++events_;
    if (number == kNoNative) {
      wrong_ += count == 0 ? 0 : 1;
      return;
    }
    if (mine_->walked_count == 0) ++proven_;
    KnownStack& stack = (*mine_->known)[number];
    if (!stack.is_mirrored) {
      stack.is_mirrored = true;
      known_[number] = outer(mine_->walked(), mine_->walked_count);
    }
    if (known_[number] != outer(found_, count)) ++wrong_;
  }
  [[nodiscard]] int events() const { return events_; }
  [[nodiscard]] int proven() const { return proven_; }
  [[nodiscard]] int wrong() const { return wrong_; }
  [[nodiscard]] std::size_t stacks() const { return known_.size(); }
  [[nodiscard]] NativeStack& mine() { return *mine_; }

 private:
  // Without event() itself.
  static Addresses outer(const NativeAddresses& all, std::size_t count) {
    if (count == 0) return {};
    return {all.begin() + 1, all.begin() + static_cast<long>(count)};
  }

  NativeWalker& walker_;
  std::unique_ptr<NativeStack> mine_ = std::make_unique<NativeStack>();
  NativeAddresses found_{};
  std::map<NativeNumber, Addresses> known_;
  int events_ = 0;
  int proven_ = 0;
  int wrong_ = 0;
};

// Random programs: functions of many kinds call each other, and have events now and then.
struct Program {
  Watcher& watcher;
  std::minstd_rand random;
  int left = 0;  // events

  unsigned below(unsigned limit) { return static_cast<unsigned>(random() % limit); }
};

void run(Program& program, int depth);

template <int kSize>
[[gnu::noinline]] int plain(Program& program, int depth) {
  volatile char room[std::size_t{8} + std::size_t{24} * kSize];
  room[0] = 1;
  run(program, depth - 1);
  return room[0];
}

// Two calls of the same function: the callee's frame is the same, its return address is not.
[[gnu::noinline]] int twice(Program& program, int depth) {
  volatile int kept = 1;
  run(program, depth - 1);
  run(program, depth - 2);
  return kept;
}

// The frame is found by rbp.
[[gnu::noinline]] int with_alloca(Program& program, int depth) {
  auto* room = static_cast<volatile char*>(alloca(16 + 16 * program.below(4)));
  room[0] = 1;
  run(program, depth - 1);
  return room[0];
}

// The stack is aligned in between.
[[gnu::noinline]] int aligned(Program& program, int depth) {
  alignas(128) volatile char room[128];
  room[0] = 1;
  run(program, depth - 1);
  return room[0];
}

[[gnu::noinline]] int tail(Program& program, int depth) { return twice(program, depth - 1); }

[[gnu::noinline]] int catching(Program& program, int depth) {
  try {
    run(program, depth - 1);
    if (program.below(2) == 0) throw std::runtime_error("");
  } catch (const std::runtime_error&) {
    run(program, depth - 2);
    return 1;
  }
  return 0;
}

[[gnu::noinline]] int through_lambdas(Program& program, int depth) {
  const std::function<int()> inner = [&] {
    run(program, depth - 1);
    return 1;
  };
  const auto outer = [&]() __attribute__((noinline)) { return inner() + 1; };
  return outer();
}

std::jmp_buf g_jump;
void jump_away(Program& program, int levels);
[[gnu::noinline]] void jump_away_after(Program& program, int levels) {
  volatile int kept = levels;
  jump_away(program, kept);
  kept = 0;
}
[[gnu::noinline]] void jump_away(Program& program, int levels) {
  volatile int kept = levels;
  if (levels > 0) return jump_away_after(program, kept - 1);
  program.watcher.event();
  if (kept == 0) std::longjmp(g_jump, 1);
}
[[gnu::noinline]] int jumping(Program& program, int depth) {
  const auto levels = static_cast<int>(program.below(6));
  if (setjmp(g_jump) == 0) jump_away(program, levels);
  run(program, depth - 1);
  return 1;
}

[[gnu::noinline]] void run(Program& program, int depth) {
  constexpr std::array<int (*)(Program&, int), 10> kFunctions = {
      plain<1>, plain<2>, plain<9>, twice,           with_alloca,
      aligned,  tail,     catching, through_lambdas, jumping};
  if (program.left <= 0) return;
  if (depth <= 0 || program.below(8) == 0) {
    --program.left;
    program.watcher.event();
    program.watcher.event();
    return;
  }
  kFunctions[program.below(kFunctions.size())](program, depth);
}

void run_program(Watcher& watcher, unsigned seed, int events) {
  Program program{watcher, std::minstd_rand(seed), events};
  while (program.left > 0) run(program, 2 + static_cast<int>(program.below(12)));
}

TEST(KnownStacks, of_random_programs_are_those_of_a_walk) {
  NativeWalker walker({});
  Watcher watcher(walker);
  for (unsigned seed = 1; seed <= 60; ++seed) run_program(watcher, seed, 400);
  EXPECT_EQ(watcher.wrong(), 0);
  EXPECT_GT(watcher.events(), 40'000);
  EXPECT_GT(watcher.stacks(), 1'000U);
  EXPECT_GT(watcher.proven(), 100);
}

TEST(KnownStacks, of_a_program_that_repeats_itself_are_not_walked_again) {
  NativeWalker walker({});
  Watcher watcher(walker);
  for (int step = 0; step < 20; ++step) run_program(watcher, 7, 100);
  EXPECT_EQ(watcher.wrong(), 0);
  // The first step is new; after it, one stack in ten may be followed by a third one.
  EXPECT_GT(watcher.proven(), watcher.events() * 8 / 10);
}

TEST(KnownStacks, follow_the_settings_of_the_walker) {
  NativeWalker walker({});
  Watcher watcher(walker);
  for (const std::size_t depth : {128U, 3U, 10U, 3U, 128U, 256U}) {
    walker.set_depth(depth);
    for (int step = 0; step < 3; ++step) run_program(watcher, 3, 100);
    walker.forget_modules();
    run_program(watcher, 3, 100);
  }
  walker.set_interpreter({reinterpret_cast<std::uintptr_t>(&run_program),
                          reinterpret_cast<std::uintptr_t>(&run_program) + 1});
  run_program(watcher, 3, 100);
  EXPECT_EQ(watcher.wrong(), 0);
}

TEST(KnownStacks, of_threads_that_share_a_walker_are_their_own) {
  NativeWalker walker({});
  std::atomic<int> wrong{0};
  std::atomic<int> proven{0};
  std::vector<std::thread> threads;
  for (unsigned number = 0; number < 6; ++number) {
    threads.emplace_back([&, number] {
      Watcher watcher(walker);
      for (int step = 0; step < 10; ++step) {
        // A function that jumps uses a variable that threads share.
        Program program{watcher, std::minstd_rand(number), 200};
        while (program.left > 0) {
          --program.left;
          program.below(2) == 0 ? plain<3>(program, 0) : twice(program, 0);
        }
      }
      wrong += watcher.wrong();
      proven += watcher.proven();
    });
  }
  for (int turn = 0; turn < 50; ++turn) walker.forget_modules();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(proven, 1'000);
}

// Two stacks of a thread, switched between.
struct Coroutine {
  static constexpr std::size_t kBytes = std::size_t{256} * 1024;
  std::unique_ptr<char[]> memory = std::make_unique<char[]>(kBytes);
  ucontext_t context{};
};
Watcher* g_watcher = nullptr;
std::array<Coroutine, 2>* g_coroutines = nullptr;
ucontext_t g_main;

[[gnu::noinline]] void switch_within(int self, int depth) {
  volatile int kept = depth;
  if (depth > 0) switch_within(self, depth - 1);
  g_watcher->event();
  const auto own = static_cast<std::size_t>(self);
  ::swapcontext(&(*g_coroutines)[own].context, &(*g_coroutines)[1 - own].context);
  g_watcher->event();
  static_cast<void>(kept);
}
void first_routine() { switch_within(0, 5); }
void second_routine() { switch_within(1, 8); }

TEST(KnownStacks, of_coroutines_are_those_of_a_walk) {
  NativeWalker walker({});
  Watcher watcher(walker);
  std::array<Coroutine, 2> coroutines;
  g_watcher = &watcher;
  g_coroutines = &coroutines;
  static int round;
  for (round = 0; round < 3; ++round) {
    for (std::size_t own = 0; own < 2; ++own) {
      ucontext_t& context = coroutines[own].context;
      ::getcontext(&context);
      context.uc_stack.ss_sp = coroutines[own].memory.get();
      context.uc_stack.ss_size = Coroutine::kBytes;
      context.uc_link = &g_main;
      ::makecontext(&context, own == 0 ? first_routine : second_routine, 0);
    }
    ::swapcontext(&g_main, &coroutines[0].context);
    watcher.event();
  }
  EXPECT_EQ(watcher.wrong(), 0);
  EXPECT_GT(watcher.events(), 30);
}

[[gnu::noinline]] int shifted(Watcher& watcher, std::size_t outside, std::size_t inside,
                              int levels) {
  auto* room = static_cast<volatile char*>(alloca(levels == 0 ? inside : outside));
  room[0] = 1;
  if (levels == 0) {
    watcher.event();
  } else {
    shifted(watcher, outside, inside, levels - 1);
  }
  return room[0];
}

// The same addresses and the same stack pointer, but the frames between are elsewhere.
TEST(KnownStacks, are_walked_again_when_only_frames_have_moved) {
  NativeWalker walker({});
  Watcher watcher(walker);
  for (int turn = 0; turn < 40; ++turn) {
    const auto outside = static_cast<std::size_t>(64 + 64 * (turn / 2 % 4));
    shifted(watcher, outside, 320 - outside, 1);
  }
  EXPECT_EQ(watcher.wrong(), 0);
  EXPECT_GT(watcher.proven(), 0);
}

[[gnu::noinline]] int innermost_room(Watcher& watcher, std::size_t inside) {
  auto* room = static_cast<volatile char*>(alloca(inside));
  room[0] = 1;
  watcher.event();
  return room[0];
}
template <int kCaller>
[[gnu::noinline]] int outer_room(Watcher& watcher, std::size_t outside, std::size_t inside) {
  auto* room = static_cast<volatile char*>(alloca(outside));
  room[0] = 1;
  return innermost_room(watcher, inside) + room[0];
}

// The return address of another caller is still where it was, in memory that nobody wrote to since.
// Only the saved frame pointer says that it is no longer that of a frame.
TEST(KnownStacks, are_not_taken_from_what_an_earlier_call_left_behind) {
  constexpr std::size_t kWhole = 640;
  using Function = int (*)(Watcher&, std::size_t, std::size_t);
  constexpr std::array<Function, 2> kCallers = {outer_room<0>, outer_room<1>};
  NativeWalker walker({});
  Watcher watcher(walker);
  for (const std::size_t shift : {64U, 128U, 256U, 512U}) {
    for (int turn = 0; turn < 9; ++turn) {
      const std::size_t who = turn % 3 == 2 ? 1 : 0;
      const volatile Function caller = kCallers[who];
      const std::size_t outside = 64 + (who == 0 ? 0 : shift);
      caller(watcher, outside, kWhole - outside);
    }
  }
  EXPECT_EQ(watcher.wrong(), 0);
  EXPECT_EQ(watcher.events(), 36);
  EXPECT_GT(watcher.proven(), 8);
}

template <int... kKinds>
void more_stacks_than_fit(Watcher& watcher, int rounds,
                          std::integer_sequence<int, kKinds...> /*kinds*/) {
  Program program{watcher, std::minstd_rand(1), 1 << 30};
  for (int round = 0; round < rounds; ++round) (plain<kKinds>(program, 3 + round % 5), ...);
}

TEST(KnownStacks, begin_anew_when_there_are_too_many) {
  NativeWalker walker({});
  Watcher watcher(walker);
  more_stacks_than_fit(watcher, 100, std::make_integer_sequence<int, 60>());
  EXPECT_EQ(watcher.wrong(), 0);
  EXPECT_GT(watcher.events(), 6'000);
  EXPECT_EQ(watcher.stacks(), 2'047U);  // all numbers were used, and then used again
}

// As for a stack that is forged: the words are right, the stack is another.
TEST(KnownStacks, a_walker_that_checks_notices_a_wrong_proof) {
  NativeWalker walker({});
  Watcher watcher(walker);
  walker.check_each(NativeWalker::Checks::counted);
  for (int turn = 0; turn < 10; ++turn) {
    watcher.event();
    EXPECT_EQ(walker.wrong_proofs() > 0, turn > 5) << turn;
    if (turn == 5)
      for (NativeNumber number = 1; number < 10; ++number)
        (*watcher.mine().known)[number].hash ^= 1U;
  }
}

}  // namespace
}  // namespace gpumemprof::capture
#endif
