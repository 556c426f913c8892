#include "estimate/simulated_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "capture/capture.h"
#include "store/store.h"
#include "trace/reader.h"

namespace gpumemprof::estimate {
namespace {

using testing::ElementsAre;

std::unique_ptr<SimulatedDevice> make_device(std::uint64_t free_bytes = kGiB,
                                             const std::string& settings = "") {
  SimulatedDeviceOptions options;
  options.total_bytes = 2 * kGiB;
  options.free_bytes = free_bytes;
  options.settings = settings;
  return std::move(SimulatedDevice::create(options)).value();
}

TEST(SimulatedDevice, counts_as_torch_does) {
  const auto device = make_device();
  const auto first = device->allocate(1000, 0, {});
  const auto second = device->allocate(3 * kMiB, 0, {});
  ASSERT_TRUE(first && second);
  EXPECT_EQ(device->counters().allocated_bytes.current(), 1024 + 3 * kMiB);
  EXPECT_EQ(device->counters().reserved_bytes.current(), 22 * kMiB);
  EXPECT_EQ(device->free_bytes(), kGiB - 22 * kMiB);
  EXPECT_TRUE(device->free(*second));
  EXPECT_FALSE(device->free(*second));
  EXPECT_EQ(device->counters().allocated_bytes.current(), 1024U);
  device->empty_cache();
  EXPECT_EQ(device->counters().reserved_bytes.current(), 2 * kMiB);
}

TEST(SimulatedDevice, keeps_its_own_peaks_when_the_program_resets_torchs) {
  const auto device = make_device();
  const auto large = device->allocate(100 * kMiB, 0, {});
  device->free(*large);
  device->empty_cache();
  device->reset_peaks();
  EXPECT_EQ(device->counters().allocated_bytes.peak(), 0U);
  EXPECT_EQ(device->counters().value("reserved_bytes.all.peak"), 0U);
  EXPECT_EQ(device->peak_allocated_bytes(), 100 * kMiB);
  EXPECT_EQ(device->peak_reserved_bytes(), 100 * kMiB);
}

// Two free blocks of equal size: one is a whole segment, the other the end of one whose beginning
// is freed later. Which of them the small request takes depends on which lies lower.
TEST(SimulatedDevice, says_what_depends_on_the_order_of_segments) {
  const auto device = make_device();
  const auto alone = device->allocate(10 * kMiB, 0, {});
  const auto both = device->allocate(20 * kMiB, 0, {});
  device->free(*both);
  const auto beginning = device->allocate(10 * kMiB, 0, {});
  device->free(*alone);
  ASSERT_TRUE(device->allocate(2 * kMiB, 0, {}));
  device->free(*beginning);
  EXPECT_EQ(device->peak_reserved_range(), std::pair(30 * kMiB, 30 * kMiB));
  ASSERT_TRUE(device->allocate(20 * kMiB, 0, {}));
  EXPECT_EQ(device->peak_reserved_bytes(), 50 * kMiB);
  EXPECT_EQ(device->peak_reserved_range(), std::pair(30 * kMiB, 50 * kMiB));
}

TEST(SimulatedDevice, where_memory_ran_short_the_order_says_nothing) {
  const auto device = make_device(30 * kMiB);
  const auto first = device->allocate(20 * kMiB, 0, {});
  device->free(*first);
  ASSERT_TRUE(device->allocate(24 * kMiB, 0, {}));
  EXPECT_EQ(device->peak_reserved_range(), std::pair(24 * kMiB, 24 * kMiB));
}

TEST(SimulatedDevice, a_block_of_one_stream_or_pool_does_not_serve_another) {
  const auto device = make_device();
  const auto block = device->allocate(4 * kMiB, 0, {});
  device->free(*block);
  EXPECT_NE(device->allocate(4 * kMiB, 77, {}), block);
  EXPECT_NE(device->allocate(4 * kMiB, 0, {1, 0}), block);
  EXPECT_EQ(device->allocate(4 * kMiB, 0, {}), block);
}

TEST(SimulatedDevice, a_pool_is_returned_when_nobody_keeps_it) {
  const auto device = make_device();
  const PoolId pool{1, 0};
  const auto block = device->allocate(4 * kMiB, 0, pool);
  device->free(*block);
  device->empty_cache();
  EXPECT_EQ(device->counters().reserved_bytes.current(), 20 * kMiB);
  device->release_pool(pool);
  device->empty_cache();
  EXPECT_EQ(device->counters().reserved_bytes.current(), 0U);
}

TEST(SimulatedDevice, emptying_one_pool_leaves_the_others) {
  const auto device = make_device();
  const auto outside = device->allocate(4 * kMiB, 0, {});
  const auto within = device->allocate(4 * kMiB, 0, {0, 1});
  device->free(*outside);
  device->free(*within);
  device->empty_pool({0, 1});
  EXPECT_EQ(device->counters().reserved_bytes.current(), 20 * kMiB);
}

TEST(SimulatedDevice, a_fraction_limits_what_may_be_reserved) {
  const auto device = make_device(2 * kGiB);
  device->limit_fraction(0.25);
  EXPECT_FALSE(device->allocate(600 * kMiB, 0, {}).has_value());
  EXPECT_TRUE(device->allocate(500 * kMiB, 0, {}).has_value());
}

TEST(SimulatedDevice, says_which_settings_cannot_be_predicted) {
  SimulatedDeviceOptions options;
  options.settings = "backend:cudaMallocAsync";
  EXPECT_FALSE(SimulatedDevice::create(options).ok());
  options.settings = "no_such_setting:1";
  EXPECT_FALSE(SimulatedDevice::create(options).ok());
}

class SimulatedRecording : public testing::Test {
 protected:
  void SetUp() override {
    path_ = testing::TempDir() + "simulated_" + std::to_string(::getpid()) +
            testing::UnitTest::GetInstance()->current_test_info()->name() + ".gmp";
    capture::StartOptions options;
    options.path = path_;
    options.memory = capture::MemoryKind::cuda;
    options.overwrites = true;
    recording_ = std::move(capture::start(options)).value();
    capture::join_simulated(recording_, 0);
  }
  void TearDown() override { std::filesystem::remove(path_); }

  std::vector<Event> stop_and_read() {
    capture::stop(recording_, "stop");
    Store store;
    auto reader = std::move(TraceReader::open(path_)).value();
    EXPECT_TRUE(reader->deliver(store).ok());
    std::vector<Event> events;
    const EventColumns& columns = store.devices()[0]->events;
    for (std::size_t row = 0; row < columns.size(); ++row) events.push_back(columns.row(row));
    return events;
  }

  std::string path_;
  capture::RecordingNumber recording_ = 0;
};

std::vector<Action> actions(const std::vector<Event>& events) {
  std::vector<Action> found;
  for (const Event& event : events) found.push_back(event.action);
  return found;
}

TEST_F(SimulatedRecording, holds_what_torchs_allocator_would_report) {
  const auto device = make_device(64 * kMiB);
  const auto block = device->allocate(30 * kMiB, 0, {});
  device->free(*block);
  EXPECT_FALSE(device->allocate(80 * kMiB, 0, {}).has_value());
  const std::vector<Event> events = stop_and_read();
  ASSERT_THAT(actions(events),
              ElementsAre(Action::segment_alloc, Action::alloc, Action::free_requested,
                          Action::free_completed, Action::segment_free, Action::oom));
  EXPECT_EQ(events[1].address, *block);
  EXPECT_EQ(events[1].size_bytes, 30 * kMiB);
  EXPECT_EQ(events[5].size_bytes, 80 * kMiB);
  EXPECT_EQ(events[5].address, 64 * kMiB);  // what was free
}

TEST_F(SimulatedRecording, is_empty_if_nothing_was_allocated) {
  EXPECT_TRUE(capture::is_recording());
  EXPECT_EQ(capture::stop(recording_, "stop").events, 0U);
}

}  // namespace
}  // namespace gpumemprof::estimate
