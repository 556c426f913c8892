// What the analyses report for a recording small enough to work out by hand.
#include <gtest/gtest.h>

#include "analysis/code/user_frame.h"
#include "analysis/fragmentation/free_memory.h"
#include "analysis/fragmentation/pins.h"
#include "analysis/oom/oom.h"
#include "analysis/overview/overview.h"
#include "analysis/peak/live_set.h"
#include "replay/replay.h"

namespace gpumemprof {
namespace {

constexpr std::uint64_t kSegment = 0x10000000;
constexpr std::uint64_t kOther = 0x20000000;

// A 20 MiB segment with three blocks of 4 MiB; the first and third are freed, then a request for
// 64 MiB fails. A second stream has a segment of its own, empty at the end.
class Moments : public ::testing::Test {
 protected:
  Moments() {
    const FrameId user = frame("train", "/train/train.py", 7);
    const FrameId other = frame("evaluate", "/train/train.py", 9);
    const FrameId library =
        frame("linear", "/venv/lib/python3.12/site-packages/torch/nn/functional.py", 3);
    train_ = store_.add_stack(store_.add_stack(StackId(), user), library);
    evaluate_ = store_.add_stack(StackId(), other);
    const std::uint32_t main_stream = store_.add_stream(0);
    const std::uint32_t side_stream = store_.add_stream(77);
    EventColumns events;
    const auto add = [&](Action action, std::uint64_t address, std::uint64_t size, StackId stack,
                         std::uint32_t stream) {
      events.push_back({action,
                        address,
                        size,
                        stream,
                        static_cast<std::int64_t>(events.size()) * 1000,
                        stack,
                        {},
                        {},
                        kNoPool,
                        {}});
    };
    add(Action::segment_alloc, kSegment, 20 * kMiB, train_, main_stream);          // 0
    add(Action::alloc, kSegment, 4 * kMiB, train_, main_stream);                   // 1
    add(Action::alloc, kSegment + 4 * kMiB, 4 * kMiB, evaluate_, main_stream);     // 2
    add(Action::alloc, kSegment + 8 * kMiB, 4 * kMiB - 100, train_, main_stream);  // 3
    add(Action::segment_alloc, kOther, 20 * kMiB, evaluate_, side_stream);         // 4
    add(Action::alloc, kOther, 2 * kMiB, evaluate_, side_stream);                  // 5: the peak
    add(Action::free_requested, kOther, 2 * kMiB, evaluate_, side_stream);         // 6
    add(Action::free_completed, kOther, 2 * kMiB, evaluate_, side_stream);         // 7
    add(Action::free_requested, kSegment, 4 * kMiB, train_, main_stream);          // 8
    add(Action::free_completed, kSegment, 4 * kMiB, train_, main_stream);          // 9
    add(Action::free_requested, kSegment + 8 * kMiB, 4 * kMiB - 100, train_, main_stream);  // 10
    add(Action::oom, 3 * kMiB, 64 * kMiB, train_, main_stream);                             // 11
    store_.add_events(0, std::move(events));
    Origin origin;
    origin.has_traces = true;
    origin.has_start = true;
    store_.set_origin(origin);
    record_ = store_.devices().front().get();
    replay_ = replay_device(*record_, store_.settings(), store_.origin());
  }

  FrameId frame(const char* name, const char* file, std::uint32_t line) {
    return store_.add_frame({store_.add_string(name), store_.add_string(file), line});
  }

  Store store_;
  StackId train_;
  StackId evaluate_;
  DeviceRecord* record_ = nullptr;
  DeviceReplay replay_;
};

TEST_F(Moments, live_groups_sum_to_the_peak) {
  ASSERT_EQ(replay_.peak_event, 5U);
  EXPECT_EQ(replay_.peak.allocated_bytes, 14 * kMiB);
  const LiveSet live = live_at(*record_, Moment::after(replay_.peak_event));
  EXPECT_EQ(live.allocated_bytes, 14 * kMiB);
  ASSERT_EQ(live.groups.size(), 2U);
  EXPECT_EQ(live.groups[0].stack, train_);
  EXPECT_EQ(live.groups[0].bytes, 8 * kMiB);
  EXPECT_EQ(live.groups[0].requested_bytes, 8 * kMiB - 100);
  EXPECT_EQ(live.groups[1].bytes, 6 * kMiB);
}

TEST_F(Moments, a_library_frame_is_shown_below_the_users_line) {
  const std::vector<LiveLine> lines =
      live_by_user_line(live_at(*record_, Moment::after(5)), store_);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(store_.frame(lines[0].line.frame).line, 7U);
  ASSERT_EQ(lines[0].places.size(), 1U);
  EXPECT_EQ(store_.text(store_.frame(lines[0].places[0].frame).name), "linear");
}

TEST_F(Moments, free_memory_is_divided_by_reason_and_stream) {
  const FreeMemory memory = free_memory_at(*record_, store_, Moment::end());
  EXPECT_EQ(memory.reserved_bytes, 40 * kMiB);
  EXPECT_EQ(memory.allocated_bytes, 4 * kMiB);
  EXPECT_EQ(memory.waiting_bytes, 4 * kMiB);  // freed at event 10, never completed
  EXPECT_EQ(memory.hole_bytes, 12 * kMiB);
  EXPECT_EQ(memory.holes, 2U);
  EXPECT_EQ(memory.largest_hole_bytes, 8 * kMiB);
  EXPECT_EQ(memory.whole_segment_bytes, 20 * kMiB);
  EXPECT_EQ(memory.whole_segments, 1U);
  EXPECT_EQ(memory.rounding_bytes, 100U);
  ASSERT_EQ(memory.streams.size(), 2U);
  EXPECT_EQ(memory.streams[0].free_bytes + memory.streams[1].free_bytes, memory.free_bytes);
}

TEST_F(Moments, the_oldest_block_of_a_segment_pins_it) {
  const PinReport pins = find_pins(*record_, store_, Moment::end());
  ASSERT_EQ(pins.segments.size(), 1U);
  EXPECT_EQ(pins.segments[0].pin_event, 2U);
  EXPECT_EQ(pins.segments[0].pin_stack, evaluate_);
  EXPECT_EQ(pins.segments[0].free_bytes, 12 * kMiB);
  EXPECT_EQ(pins.shares.pinned_bytes, 12 * kMiB);
  EXPECT_EQ(pins.shares.other_stream_bytes, 20 * kMiB);
  EXPECT_EQ(pins.shares.surplus_bytes, 0U);
}

TEST_F(Moments, an_out_of_memory_error_with_little_free_is_a_true_shortage) {
  const std::vector<OomReport> ooms = find_ooms(store_, *record_, replay_, 3);
  ASSERT_EQ(ooms.size(), 1U);
  EXPECT_EQ(ooms[0].wanted_bytes, 64 * kMiB);
  EXPECT_EQ(ooms[0].device_free_bytes, 3 * kMiB);
  EXPECT_EQ(ooms[0].largest_free_bytes, 8 * kMiB);
  EXPECT_EQ(ooms[0].cause, OomCause::shortage);
}

TEST_F(Moments, an_event_that_is_not_there_is_named_with_the_range) {
  OverviewOptions options;
  options.at = {AskedMoment::Kind::event, 99};
  const Result<Overview> overview = make_overview(store_, {replay_}, {{}}, "run.pickle", options);
  ASSERT_FALSE(overview.ok());
  EXPECT_EQ(overview.error().code, ErrorCode::usage);
  EXPECT_NE(overview.error().sentence().find("0 to 11"), std::string::npos);
}

TEST(UserFrame, installed_generated_and_native_files_are_libraries) {
  for (const char* file :
       {"/venv/lib/python3.12/site-packages/torch/nn/x.py", "/usr/lib/python3/dist-packages/a.py",
        "/usr/lib/python3.11/threading.py", "<frozen runpy>", "??", "",
        "/tmp/torchinductor_me/a.py", "/build/aten/src/x.cpp"}) {
    EXPECT_TRUE(is_library_file(file)) << file;
  }
  EXPECT_FALSE(is_library_file("/train/train.py"));
  EXPECT_FALSE(is_library_file("train.py"));
}

}  // namespace
}  // namespace gpumemprof
