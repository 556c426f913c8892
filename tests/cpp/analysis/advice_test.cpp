// What remedies would do to handwritten runs, compared with the same runs with the remedy written
// into them.
#include "analysis/advice/advice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analysis/block_run.h"

namespace gpumemprof {
namespace {

TEST(Advice, has_every_remedy_by_its_name_and_never_a_peak_without_its_band) {
  const Advice advice = BlockRun(wide_run()).advice();
  for (const char* name :
       {"checkpointing", "autocast_bf16", "pure_bf16", "sgd", "sgd_momentum", "lion", "adafactor",
        "adam_8bit", "foreach_off", "fused", "batch_x0.5", "batch_x2", "accumulate_x4",
        "expandable_segments", "checkpointing_selective", "autocast_fp16", "empty_cache"}) {
    const Remedy& entry = remedy(advice, name);
    ASSERT_TRUE(entry.peak_allocated.has_value()) << name << ": " << entry.why;
    EXPECT_LT(entry.peak_allocated->low_bytes, entry.peak_allocated->bytes) << name;
    EXPECT_GT(entry.peak_allocated->high_bytes, entry.peak_allocated->bytes) << name;
    EXPECT_LT(entry.peak_reserved->low_bytes, entry.peak_reserved->high_bytes) << name;
    EXPECT_FALSE(entry.why.empty()) << name;
    EXPECT_FALSE(entry.how.empty()) << name;
  }
}

TEST(Advice, what_saves_most_comes_first) {
  const Advice advice = BlockRun(wide_run()).advice();
  for (std::size_t index = 1; index < advice.remedies.size(); ++index) {
    if (!advice.remedies[index].peak_allocated) continue;
    EXPECT_GE(advice.remedies[index - 1].saving_bytes, advice.remedies[index].saving_bytes);
  }
}

TEST(Advice, sgd_equals_the_run_without_states) {
  Shape without = wide_run();
  without.states = 0;
  without.step_temporaries = 0;
  EXPECT_EQ(predicted(BlockRun(wide_run()).advice(), "sgd"), BlockRun(without).peak());
}

TEST(Advice, momentum_and_lion_equal_the_run_with_one_state) {
  Shape one = wide_run();
  one.states = 1;
  const Advice advice = BlockRun(wide_run()).advice();
  EXPECT_EQ(predicted(advice, "sgd_momentum"), BlockRun(one).peak());
  EXPECT_EQ(predicted(advice, "lion"), BlockRun(one).peak());
}

TEST(Advice, a_state_that_the_run_lacks_is_added) {
  Shape none = wide_run();
  none.states = 0;
  none.step_temporaries = 0;
  Shape one = wide_run();
  one.states = 1;
  EXPECT_EQ(predicted(BlockRun(none).advice(), "sgd_momentum"), BlockRun(one).peak());
}

TEST(Advice, states_of_8_bits_take_a_quarter_and_their_scales) {
  Shape without = wide_run();
  without.states = 0;
  const std::uint64_t elements = 4 * without.weight / 4;
  const std::uint64_t states = 2 * elements + 2 * elements / 256 * 4;
  // Blocks that the allocator does not split can be up to 1 MiB larger.
  EXPECT_NEAR(static_cast<double>(predicted(BlockRun(wide_run()).advice(), "adam_8bit")),
              static_cast<double>(BlockRun(without).peak() + states), 4.0 * kMiB);
}

TEST(Advice, paged_states_are_on_the_device_at_worst_and_off_it_at_best) {
  const Shape shape = wide_run();
  const std::uint64_t moments = 2 * shape.weight;  // of one byte for each of the elements
  const Advice advice = BlockRun(shape).advice();
  const Remedy& on_device = remedy(advice, "adam_8bit");
  const Remedy& paged = remedy(advice, "paged_adamw_8bit");
  EXPECT_EQ(paged.peak_allocated->bytes, on_device.peak_allocated->bytes);
  EXPECT_EQ(paged.peak_allocated->high_bytes, on_device.peak_allocated->high_bytes);
  EXPECT_EQ(paged.peak_allocated->low_bytes, on_device.peak_allocated->low_bytes - moments);
  EXPECT_EQ(paged.peak_reserved->low_bytes, on_device.peak_reserved->low_bytes - moments);
  EXPECT_THAT(paged.why, testing::HasSubstr("unified memory"));
}

TEST(Advice, states_of_small_parameters_are_not_paged) {
  Shape shape = wide_run();
  shape.weight = 256 * kKiB;  // 65,536 elements
  const Advice advice = BlockRun(shape).advice();
  EXPECT_EQ(remedy(advice, "paged_adamw_8bit").peak_allocated->low_bytes,
            remedy(advice, "adam_8bit").peak_allocated->low_bytes);
}

TEST(Advice, a_peak_in_the_step_is_lowered_by_stepping_otherwise_and_not_by_checkpointing) {
  Shape shape;  // weights make the peak
  shape.normed = kMiB;
  shape.wide = 2 * kMiB;
  const BlockRun run(shape);
  const Advice advice = run.advice();
  EXPECT_EQ(advice.baseline.phase, Phase::optimizer_step);
  EXPECT_EQ(predicted(advice, "checkpointing"), run.peak());
  EXPECT_THAT(remedy(advice, "checkpointing").why, testing::HasSubstr("the optimizer's step"));
  EXPECT_THAT(remedy(advice, "checkpointing").why, testing::HasSubstr("does not lower it"));
  Shape fused = shape;
  fused.step_temporaries = 0;
  EXPECT_EQ(predicted(advice, "fused"), BlockRun(fused).peak());
  // Two temporaries of one weight.
  EXPECT_LE(predicted(advice, "foreach_off"), run.peak() - 2 * shape.weight);
}

TEST(Advice, batches_scale_what_is_made_of_them_and_nothing_else) {
  Shape twice = wide_run();
  twice.normed *= 2;
  twice.wide *= 2;
  twice.input *= 2;
  EXPECT_EQ(predicted(BlockRun(wide_run()).advice(), "batch_x2"), BlockRun(twice).peak());
  EXPECT_EQ(predicted(BlockRun(twice).advice(), "batch_x0.5"), BlockRun(wide_run()).peak());
}

// The norm's result does not grow with the batch: only a second recording can show that.
TEST(Advice, another_batch_tells_what_grows_with_it) {
  Shape twice = wide_run();
  twice.wide *= 2;
  twice.input *= 2;
  const BlockRun run(wide_run());
  const BlockRun other(twice);
  const std::vector<std::vector<PhaseSpan>> phases = {other.phases()};
  AdviceOptions options;
  options.other = OtherRun{&other.store(), &phases};
  const Advice alone = run.advice();
  const Advice sharpened = run.advice(options);
  EXPECT_EQ(predicted(sharpened, "batch_x2"), other.peak());
  EXPECT_GT(predicted(alone, "batch_x2"), other.peak());
  const PredictedBytes wide = *remedy(alone, "batch_x2").peak_allocated;
  const PredictedBytes narrow = *remedy(sharpened, "batch_x2").peak_allocated;
  EXPECT_LT(narrow.high_bytes - narrow.low_bytes, wide.high_bytes - wide.low_bytes);
}

TEST(Advice, another_program_teaches_nothing_and_says_so) {
  Shape deeper = wide_run();
  deeper.blocks = 5;
  const BlockRun run(wide_run());
  const BlockRun other(deeper);
  const std::vector<std::vector<PhaseSpan>> phases = {other.phases()};
  AdviceOptions options;
  options.other = OtherRun{&other.store(), &phases};
  const Advice advice = run.advice(options);
  EXPECT_EQ(predicted(advice, "batch_x2"), predicted(run.advice(), "batch_x2"));
  EXPECT_THAT(advice.missing, testing::Contains(testing::HasSubstr("do not make the same")));
}

TEST(Advice, accumulating_equals_the_run_whose_gradients_are_there_in_forward) {
  Shape two = wide_run();
  two.is_accumulating = true;
  EXPECT_EQ(predicted(BlockRun(wide_run()).advice(), "accumulate_x4"), BlockRun(two).peak());
}

TEST(Advice, checkpointing_equals_the_run_that_recomputes_its_blocks) {
  Shape checkpointed = wide_run();
  checkpointed.is_checkpointed = true;
  const Advice advice = BlockRun(wide_run()).advice();
  EXPECT_NEAR(static_cast<double>(predicted(advice, "checkpointing")),
              static_cast<double>(BlockRun(checkpointed).peak()),
              0.02 * static_cast<double>(BlockRun(checkpointed).peak()));
  EXPECT_THAT(remedy(advice, "checkpointing").why, testing::HasSubstr("4 blocks"));
}

TEST(Advice, a_run_that_recomputes_is_not_told_to) {
  Shape checkpointed = wide_run();
  checkpointed.is_checkpointed = true;
  const Remedy entry = remedy(BlockRun(checkpointed).advice(), "checkpointing");
  EXPECT_FALSE(entry.peak_allocated.has_value());
  EXPECT_THAT(entry.why, testing::HasSubstr("already"));
}

TEST(Advice, pure_bf16_halves_a_run_of_floats) {
  const BlockRun run(wide_run());
  EXPECT_EQ(predicted(run.advice(), "pure_bf16"), run.peak() / 2);
}

// In each block the linear layer and the function after it are halved; the norm's result is
// replaced by a copy of half its size; the sum stays fp32. Copies of the weights are added on top.
TEST(Advice, autocast_halves_products_and_what_follows_them_and_copies_weights) {
  const Shape shape = wide_run();
  const BlockRun run(shape);
  const std::uint64_t saved_per_block = shape.normed / 2 + shape.wide + shape.normed;
  const std::uint64_t weights = 4 * shape.weight;
  const std::uint64_t expected = 3 * weights + weights / 2 + shape.input + 4 * saved_per_block +
                                 shape.wide / 2;  // what backward starts with
  EXPECT_NEAR(static_cast<double>(predicted(run.advice(), "autocast_bf16")),
              static_cast<double>(expected), 0.06 * static_cast<double>(expected));
}

TEST(Advice, without_stacks_it_says_which_recording_would_settle_it) {
  Shape shape = wide_run();
  shape.has_stacks = false;
  const Advice advice = BlockRun(shape).advice();
  const Remedy& entry = remedy(advice, "checkpointing");
  EXPECT_FALSE(entry.peak_allocated.has_value());
  EXPECT_THAT(entry.why, testing::HasSubstr("ecord"));
  EXPECT_FALSE(advice.missing.empty());
}

TEST(Fit, a_limit_above_the_peak_needs_nothing) {
  const BlockRun run(wide_run());
  AdviceOptions options;
  options.fit_bytes = 4 * run.peak();
  const Advice advice = run.advice(options);
  ASSERT_TRUE(advice.fit.has_value());
  EXPECT_TRUE(advice.fit->fits_already);
  EXPECT_TRUE(advice.fit->set.names.empty());
  EXPECT_GT(advice.fit->largest_batch_factor, 3);
}

TEST(Fit, a_limit_below_the_weights_is_beyond_every_remedy) {
  const BlockRun run(wide_run());
  AdviceOptions options;
  options.fit_bytes = kMiB;
  const Advice advice = run.advice(options);
  ASSERT_TRUE(advice.fit.has_value());
  EXPECT_FALSE(advice.fit->is_found);
}

TEST(Fit, names_remedies_whose_peak_lies_below_the_limit_with_its_band) {
  const BlockRun run(wide_run());
  AdviceOptions options;
  options.fit_bytes = run.peak() * 6 / 10;
  const Advice advice = run.advice(options);
  ASSERT_TRUE(advice.fit.has_value());
  ASSERT_TRUE(advice.fit->is_found);
  EXPECT_FALSE(advice.fit->set.names.empty());
  EXPECT_LE(advice.fit->set.peak_allocated.bytes, *options.fit_bytes);
  EXPECT_GE(advice.fit->largest_batch_factor, 1);
}

TEST(Advice, a_recording_without_a_history_is_an_error_that_says_what_to_do) {
  const Store empty;
  const Result<Advice> result = advise(empty, {}, {}, "file.pickle", {});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::bad_input);
  EXPECT_THAT(result.error().hint, testing::HasSubstr("record"));
}

}  // namespace
}  // namespace gpumemprof
