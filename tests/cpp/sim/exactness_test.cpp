// Recorded runs, simulated under the settings they were recorded with: nothing may differ.
#include <gtest/gtest.h>

#include <cmath>

#include "sim/recorded_case.h"
#include "sim/simulate.h"

namespace gpumemprof::sim {
namespace {

class RecordedRunTest : public testing::TestWithParam<const char*> {};

TEST_P(RecordedRunTest, every_placement_segment_and_counter_equals_the_recording) {
  const auto recorded = RecordedCase::load(GetParam());
  const Result<Verification> result = verify(recorded->run(), recorded->truth.options());
  ASSERT_TRUE(result.ok());
  const Verification& verified = result.value();
  EXPECT_GT(verified.allocations, 0U);
  EXPECT_EQ(verified.address_mismatches, 0U);
  EXPECT_EQ(verified.segment_mismatches, 0U);
  EXPECT_EQ(verified.end_block_mismatches, 0U);
  EXPECT_EQ(verified.counter_mismatches, 0U);
  EXPECT_EQ(verified.first_mismatch_event, kNoEvent);
  EXPECT_EQ(verified.unknown_frees + verified.implied_frees, 0U);
  EXPECT_GT(verified.counters_compared, 80U);
  EXPECT_EQ(verified.end_blocks, recorded->blocks.size());
}

TEST_P(RecordedRunTest, the_extracted_requests_give_the_same_run_again) {
  const auto recorded = RecordedCase::load(GetParam());
  const VerifyOptions options = recorded->truth.options();
  const Verification verified = verify(recorded->run(), options).value();
  SimulationOptions simulation{options.settings, options.rules, recorded->truth.limit(),
                               options.device_total_bytes};
  const SimulationResult again = simulate(verified.requests, simulation).value();
  // Addresses are invented, so ties can be broken differently; sizes and totals hardly change.
  const auto expect_close = [](std::uint64_t ours, std::uint64_t theirs, double share) {
    EXPECT_LE(std::abs(static_cast<double>(ours) - static_cast<double>(theirs)),
              share * static_cast<double>(theirs));
  };
  expect_close(again.peak_reserved_bytes, verified.counters.reserved_bytes.peak(), 0.05);
  expect_close(again.peak_allocated_bytes, verified.counters.allocated_bytes.peak(), 0.05);
}

INSTANTIATE_TEST_SUITE_P(Recordings, RecordedRunTest,
                         testing::Values("default_mixed", "expandable_streams", "split64_train",
                                         "gc60_streams_cap", "split200gc80_streams_cap",
                                         "exp_round4_mixed", "round8_small", "oom_fragmented",
                                         "oom_true_shortage", "cudagraph", "gpt2_b4_fp32_adamw",
                                         "gpt2_b32_fp32_adamw_oom", "expandable_streams_ooms",
                                         "split100_large48_streams_ooms",
                                         "split32_gc70_roundup_ooms", "expandable_pools_ooms",
                                         "split64_pools_ooms"),
                         [](const auto& tested) { return std::string(tested.param); });

class OtherSettingsTest : public testing::TestWithParam<const char*> {};

TEST_P(OtherSettingsTest, one_recording_predicts_the_peak_recorded_under_other_settings) {
  const auto recorded = RecordedCase::load("gpt2_b4_fp32_adamw");
  const Verification verified = verify(recorded->run(), recorded->truth.options()).value();
  const Truth other = Truth::read(GetParam());
  const VerifyOptions options = other.options();
  SimulationOptions simulation{options.settings, options.rules, {}, options.device_total_bytes};
  const SimulationResult predicted = simulate(verified.requests, simulation).value();
  EXPECT_EQ(predicted.peak_reserved_bytes, other.counter("reserved_bytes.all.peak"));
}

INSTANTIATE_TEST_SUITE_P(Settings, OtherSettingsTest,
                         testing::Values("gpt2_b4_fp32_adamw_expandable",
                                         "gpt2_b4_fp32_adamw_split64", "gpt2_b4_fp32_adamw_round8"),
                         [](const auto& tested) { return std::string(tested.param); });

class UnknownLimitTest : public testing::TestWithParam<const char*> {};

TEST_P(UnknownLimitTest, a_limit_that_nobody_stated_is_inferred_from_the_oom) {
  const auto recorded = RecordedCase::load(GetParam());
  VerifyOptions options = recorded->truth.options();
  const std::uint64_t true_limit_bytes = recorded->truth.limit().allowed_bytes;
  options.limit.reset();
  const Verification verified = verify(recorded->run(), options).value();
  ASSERT_TRUE(verified.inferred_limit.has_value());
  const InferredLimit inferred = verified.inferred_limit.value_or(InferredLimit());
  EXPECT_TRUE(inferred.is_from_oom);
  EXPECT_LE(inferred.low_bytes, true_limit_bytes);
  EXPECT_GE(inferred.high_bytes, true_limit_bytes);
  EXPECT_TRUE(verified.is_exact());
}

INSTANTIATE_TEST_SUITE_P(Recordings, UnknownLimitTest,
                         testing::Values("oom_fragmented", "oom_true_shortage",
                                         "gpt2_b32_fp32_adamw_oom", "expandable_streams_ooms"),
                         [](const auto& tested) { return std::string(tested.param); });

}  // namespace
}  // namespace gpumemprof::sim
