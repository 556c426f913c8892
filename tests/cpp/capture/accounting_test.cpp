// made = recorded + lost, no matter what threads, full rings, starts and stops do. The tests
// count independently of the recorder.
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <future>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "capture/stream/drain.h"
#include "store/store.h"
#include "trace/reader.h"

namespace gpumemprof::capture {
namespace {

struct CpuMemory {
  Action action;
  std::uint64_t where;

  [[nodiscard]] bool is_alloc() const { return action == Action::alloc; }
  [[nodiscard]] bool is_free_requested() const { return action == Action::free_requested; }
  [[nodiscard]] static std::uint8_t device() { return kCpuSlot; }
  [[nodiscard]] std::uint64_t address() const { return where; }
  void write(EventRecord& record) const {
    record.action = static_cast<std::uint8_t>(action);
    record.device = kCpuSlot;
    record.address = where;
    record.size_bytes = is_alloc() ? 64 : 0;
    record.ticks = read_ticks();
  }
};

// Hands out addresses as malloc does: a freed one is reused by the next caller.
class FakeHeap {
 public:
  std::uint64_t take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return next_ += 64;
    const std::uint64_t address = free_.back();
    free_.pop_back();
    return address;
  }
  void give(std::uint64_t address) {
    const std::lock_guard lock(mutex_);
    free_.push_back(address);
  }

 private:
  std::mutex mutex_;
  std::vector<std::uint64_t> free_;
  std::uint64_t next_ = 0x10000;
};

// On one core the drain gets a small share of the time, and the ring overflows repeatedly.
class OnOneCore {
 public:
  OnOneCore() {
    ::sched_getaffinity(0, sizeof(before_), &before_);
    cpu_set_t one;
    CPU_ZERO(&one);
    for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &before_)) {
        CPU_SET(cpu, &one);
        break;
      }
    }
    ::sched_setaffinity(0, sizeof(one), &one);
  }
  ~OnOneCore() { ::sched_setaffinity(0, sizeof(before_), &before_); }

 private:
  cpu_set_t before_{};
};

class Accounting : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() /
              ("gpumemprof-accounting-" + std::to_string(::getpid()));
    std::filesystem::create_directory(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string file(RecordingNumber number) const {
    return folder_ / (std::to_string(number) + ".gmp");
  }

  void start(RecordingNumber number) {
    StartOptions options;
    options.path = file(number);
    Origin origin;
    origin.kind = "live";
    origin.device_type = "cpu";
    auto output = std::make_shared<std::unique_ptr<Output>>(
        std::make_unique<Output>(number, TraceWriter::open(options.path, origin).value(), nullptr,
                                 options, origin, std::make_shared<FirstAllocation>()));
    (*output)->begin(emitter_.losses().next_epoch(), emitter_.losses().undecided());
    drain_.submit([output](Drain& drain) { drain.outputs().add(std::move(*output)); });
    ASSERT_TRUE(drain_.start_thread());
  }

  Summary stop(RecordingNumber number) {
    std::promise<Summary> done;
    drain_.submit([&](Drain& drain) {
      done.set_value(drain.take_output(number)->close("stop", drain.undecided_losses()));
    });
    return done.get_future().get();
  }

  // `events` allocations by each thread, all freed but a few, and frees that belong to no tensor.
  void work(std::uint32_t seed, int events) {
    std::mt19937 random(seed);
    std::vector<std::uint64_t> mine;
    for (int event = 0; event < events; ++event) {
      const std::uint64_t address = heap_.take();
      emitter_.emit(CpuMemory{Action::alloc, address}, StackUse::walk);
      mine.push_back(address);
      ++allocations_;
      while (mine.size() > random() % 40) free_one(mine, random());
      if (random() % 16 == 0) {
        const std::uint64_t other = heap_.take();  // its allocation is never reported
        emitter_.emit(CpuMemory{Action::free_requested, other}, StackUse::walk);
        heap_.give(other);
      }
    }
  }
  void free_one(std::vector<std::uint64_t>& mine, std::size_t any) {
    std::swap(mine[any % mine.size()], mine.back());
    emitter_.emit(CpuMemory{Action::free_requested, mine.back()}, StackUse::walk);
    heap_.give(mine.back());
    mine.pop_back();
    ++frees_;
  }
  void work_in_threads(int threads, int events) {
    std::vector<std::thread> all;
    for (int thread = 0; thread < threads; ++thread)
      all.emplace_back(
          [this, thread, events] { work(static_cast<std::uint32_t>(thread), events); });
    for (std::thread& thread : all) thread.join();
  }

  // The file holds what the summary and the file itself say it holds.
  void expect_file_agrees(const Summary& summary) {
    Store store;
    auto reader = TraceReader::open(summary.path);
    ASSERT_TRUE(reader);
    ASSERT_TRUE(reader.value()->deliver(store));
    ASSERT_TRUE(store.origin().ending && !store.origin().cut);
    const Ending& ending = *store.origin().ending;
    EXPECT_TRUE(ending.is_closed && ending.has_counts && ending.are_counts_exact);
    EventCounts rows;
    std::uint64_t counted = 0;
    for (const auto& device : store.devices()) {
      for (const Action action : device->events.action) rows.add(action);
      for (const LostEvents& lost : device->lost_events) counted += lost.count;
    }
    DeviceCounts counts;
    if (!ending.devices.empty()) counts = ending.devices[0];
    EXPECT_EQ(counts.made, summary.made);
    EXPECT_EQ(rows.allocations, counts.made.allocations - counts.lost.allocations);
    EXPECT_EQ(rows.frees - counts.inferred_frees, counts.made.frees - counts.lost.frees);
    // An event is a row: what info counts as made and recorded is what reports number.
    EXPECT_EQ(rows.total() - 2 * counts.inferred_frees,
              (counts.made.total() - counts.lost.total()));
    EXPECT_EQ(counted, counts.lost.total());
  }

  std::filesystem::path folder_;
  FakeHeap heap_;
  Ring ring_{1U << 10};
  ThreadSlots slots_;
  Emitter emitter_{ring_, slots_};
  Drain drain_{ring_, emitter_};
  std::atomic<std::uint64_t> allocations_{0};
  std::atomic<std::uint64_t> frees_{0};
};

TEST_F(Accounting, every_event_of_sixteen_threads_on_one_core_is_recorded_or_lost) {
  Summary summary;
  {
    const OnOneCore pinned;
    start(1);
    work_in_threads(16, 30'000);
    summary = stop(1);
  }
  EXPECT_TRUE(summary.has_counts);
  EXPECT_EQ(summary.made.allocations, allocations_);
  EXPECT_EQ(summary.made.frees, frees_);
  EXPECT_GT(summary.lost.allocations, 0U) << "nothing was lost, so nothing was tested";
  expect_file_agrees(summary);
}

TEST_F(Accounting, steps_count_from_before_the_first_event) {
  start(1);
  const auto mark = [&](std::uint32_t step) {
    drain_.submit(
        [step](Drain& drain) { drain.outputs().mark_phase(PhaseMark::Kind::step_start, step); });
  };
  mark(0);
  // Of memory that was there before: it is not in the recording, and neither is its device yet.
  emitter_.emit(CpuMemory{Action::free_requested, heap_.take()}, StackUse::walk);
  mark(1);
  emitter_.emit(CpuMemory{Action::alloc, heap_.take()}, StackUse::walk);
  mark(2);
  emitter_.emit(CpuMemory{Action::alloc, heap_.take()}, StackUse::walk);
  const Summary summary = stop(1);
  Store store;
  ASSERT_TRUE(TraceReader::open(summary.path).value()->deliver(store));
  ASSERT_EQ(store.devices().size(), 1U);
  std::vector<std::pair<std::uint32_t, std::uint32_t>> marks;
  for (const PhaseMark& found : store.devices()[0]->phase_marks)
    marks.emplace_back(found.number, found.before_event);
  const std::vector<std::pair<std::uint32_t, std::uint32_t>> expected = {{0, 0}, {1, 0}, {2, 1}};
  EXPECT_EQ(marks, expected);
}

TEST_F(Accounting, a_recording_of_steps_alone_has_no_device) {
  start(1);
  drain_.submit([](Drain& drain) { drain.outputs().mark_phase(PhaseMark::Kind::step_start, 0); });
  const Summary summary = stop(1);
  Store store;
  ASSERT_TRUE(TraceReader::open(summary.path).value()->deliver(store));
  EXPECT_TRUE(store.devices().empty());
}

TEST_F(Accounting, memory_allocated_before_a_recording_is_not_part_of_it) {
  const OnOneCore pinned;
  start(1);
  std::vector<std::uint64_t> early;
  for (int index = 0; index < 50'000; ++index) {
    early.push_back(heap_.take());
    emitter_.emit(CpuMemory{Action::alloc, early.back()}, StackUse::walk);
  }
  start(2);
  allocations_ = frees_ = 0;
  for (const std::uint64_t address : early) {
    emitter_.emit(CpuMemory{Action::free_requested, address}, StackUse::walk);
    heap_.give(address);
  }
  work_in_threads(4, 20'000);
  const Summary second = stop(2);
  const Summary first = stop(1);
  EXPECT_EQ(second.made.allocations, allocations_);
  EXPECT_EQ(second.made.frees, frees_);
  EXPECT_EQ(first.made.allocations, allocations_ + early.size());
  EXPECT_EQ(first.made.frees, frees_ + early.size());
  EXPECT_GT(first.lost.allocations, 0U) << "nothing was lost, so nothing was tested";
  expect_file_agrees(first);
  expect_file_agrees(second);
}

TEST_F(Accounting, after_losses_recording_is_complete_again) {
  start(1);
  {
    const OnOneCore pinned;
    work_in_threads(8, 10'000);
  }
  while (emitter_.is_losing()) std::this_thread::yield();
  const std::uint64_t address = heap_.take();
  emitter_.emit(CpuMemory{Action::alloc, address}, StackUse::walk);
  emitter_.emit(CpuMemory{Action::free_requested, address}, StackUse::walk);
  ++allocations_;
  ++frees_;
  const Summary summary = stop(1);
  EXPECT_EQ(summary.made.allocations, allocations_);
  EXPECT_EQ(summary.made.frees, frees_);
  expect_file_agrees(summary);
}

TEST_F(Accounting, a_pause_makes_the_counts_unknown) {
  start(1);
  work_in_threads(1, 10);
  drain_.submit([](Drain& drain) { drain.outputs().note_pause(); });
  EXPECT_FALSE(stop(1).has_counts);
}

}  // namespace
}  // namespace gpumemprof::capture
