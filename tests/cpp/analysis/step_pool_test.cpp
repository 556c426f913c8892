// What the pool reserved in each step, and what samples showed outside of it.
#include "analysis/card_usage/step_pool.h"

#include <gtest/gtest.h>

namespace gpumemprof {
namespace {

constexpr std::uint64_t kMiB = 1U << 20U;

StepFigures step(std::uint32_t number, std::uint32_t first_event, std::uint32_t last_event) {
  StepFigures figures;
  figures.step = number;
  figures.first_event = first_event;
  figures.last_event = last_event;
  return figures;
}

DeviceSample sample(std::uint32_t before_event, std::uint64_t process_bytes) {
  DeviceSample row;
  row.total_bytes = 1000 * kMiB;
  row.firmware_bytes = 10 * kMiB;
  row.used_bytes = process_bytes;
  row.process_bytes = process_bytes;
  row.before_event = before_event;
  return row;
}

class StepPoolTest : public ::testing::Test {
 protected:
  void segment(std::uint64_t bytes, std::uint32_t birth, std::uint32_t death) {
    record_.segments.address.push_back(0);
    record_.segments.size_bytes.push_back(bytes);
    record_.segments.birth_event.push_back(birth);
    record_.segments.death_event.push_back(death);
  }
  DeviceRecord record_;
};

TEST_F(StepPoolTest, MemoryFromBeforeTheHistoryCounts) {
  segment(5 * kMiB, kNoEvent, kNoEvent);
  segment(20 * kMiB, 3, 7);
  segment(1 * kMiB, 8, kNoEvent);
  const PoolOverSteps found =
      pool_over_steps(record_, {}, {step(0, 0, 2), step(1, 3, 5), step(2, 6, 9), step(3, 10, 12)});
  ASSERT_EQ(found.steps.size(), 4U);
  EXPECT_EQ(found.steps[0].reserved_bytes, 5 * kMiB);
  EXPECT_EQ(found.steps[1].reserved_bytes, 25 * kMiB);
  // Still reserved when the step began.
  EXPECT_EQ(found.steps[2].reserved_bytes, 25 * kMiB);
  EXPECT_EQ(found.steps[3].reserved_bytes, 6 * kMiB);
  EXPECT_FALSE(found.steps[3].outside_bytes.has_value());
  EXPECT_FALSE(found.least_free_bytes.has_value());
}

TEST_F(StepPoolTest, OutsideIsWhatTheProcessHoldsBesidesThePool) {
  segment(100 * kMiB, 2, kNoEvent);
  const std::vector<DeviceSample> samples = {sample(0, 50 * kMiB), sample(2, 55 * kMiB),
                                             sample(3, 160 * kMiB), sample(9, 900 * kMiB)};
  const PoolOverSteps found =
      pool_over_steps(record_, samples, {step(0, 0, 1), step(1, 2, 4), step(2, 5, 6)});
  EXPECT_EQ(found.steps[0].outside_bytes, 50 * kMiB);
  EXPECT_EQ(found.steps[1].outside_bytes, 60 * kMiB);
  // No sample in it: what the last one showed.
  EXPECT_EQ(found.steps[2].outside_bytes, 60 * kMiB);
  // After the last step.
  EXPECT_EQ(found.most_outside_bytes, 800 * kMiB);
  EXPECT_EQ(found.least_free_bytes, 90 * kMiB);
}

TEST_F(StepPoolTest, SamplesOfOtherDevicesAndUnknownBytesAreIgnored) {
  DeviceSample other = sample(0, 50 * kMiB);
  other.device = 1;
  DeviceSample unknown = sample(0, kUnknownBytes);
  unknown.used_bytes = kUnknownBytes;
  const PoolOverSteps found = pool_over_steps(record_, {other, unknown}, {step(0, 0, 1)});
  EXPECT_FALSE(found.steps[0].outside_bytes.has_value());
  EXPECT_FALSE(found.least_free_bytes.has_value());
}

}  // namespace
}  // namespace gpumemprof
