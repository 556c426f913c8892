// Subsets of blocks, sequences, gradients between steps, the cache: each prediction is compared
// with a handwritten run that has the remedy.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analysis/block_run.h"

namespace gpumemprof {
namespace {

Advice fitted(const BlockRun& run, std::uint64_t limit_bytes) {
  AdviceOptions options;
  options.fit_bytes = limit_bytes;
  return run.advice(options);
}

// Weights are small: nothing but activations can be saved.
Shape deep_run() {
  Shape shape = wide_run();
  shape.weight = 2 * kMiB;
  shape.blocks = 8;
  return shape;
}

TEST(Selective, keeps_what_linear_layers_made) {
  Shape kept = wide_run();
  kept.is_checkpointed = true;
  kept.keeps_products = true;
  const Advice advice = BlockRun(wide_run()).advice();
  const auto true_peak = static_cast<double>(BlockRun(kept).peak());
  EXPECT_NEAR(static_cast<double>(predicted(advice, "checkpointing_selective")), true_peak,
              0.02 * true_peak);
  EXPECT_GT(predicted(advice, "checkpointing_selective"), predicted(advice, "checkpointing"));
  EXPECT_EQ(remedy(advice, "checkpointing_selective").provenance, Provenance::estimated);
}

TEST(Fit, checkpoints_no_more_blocks_than_the_limit_needs) {
  const BlockRun run(deep_run());
  Shape three = deep_run();
  three.checkpointed_first = 3;
  const std::uint64_t true_peak = BlockRun(three).peak();
  // Room for the band, for segments, and for less than one more block.
  const Advice advice = fitted(run, true_peak + true_peak / 10);
  ASSERT_TRUE(advice.fit.has_value());
  ASSERT_TRUE(advice.fit->is_found);
  const auto with_blocks = [](const RemedySet& set) { return set.checkpointed.has_value(); };
  const RemedySet* set = &advice.fit->set;
  if (!with_blocks(*set)) {
    const auto found =
        std::find_if(advice.fit->alternatives.begin(), advice.fit->alternatives.end(), with_blocks);
    ASSERT_NE(found, advice.fit->alternatives.end());
    set = &*found;
  }
  EXPECT_EQ(set->checkpointed->of, 8);
  EXPECT_LT(set->checkpointed->which.size(), 8);
  EXPECT_GE(set->checkpointed->which.size(), 1);
  EXPECT_EQ(set->checkpointed->which.front(), 0);
  EXPECT_THAT(set->checkpointed->how,
              testing::HasSubstr("number < " + std::to_string(set->checkpointed->which.size())));
}

// How many blocks the checkpointing-only set recomputes; 0 if it is not among those found.
std::size_t blocks_alone(const FitPlan& plan) {
  std::vector<RemedySet> sets = plan.alternatives;
  sets.push_back(plan.set);
  for (const RemedySet& set : sets) {
    if (set.names == std::vector<std::string>{"checkpointing"})
      return set.checkpointed->which.size();
  }
  return 0;
}

TEST(Fit, a_lower_limit_checkpoints_more_blocks) {
  const BlockRun run(deep_run());
  std::size_t last = 0;
  for (const std::uint64_t tenths : {9U, 8U, 7U}) {
    const Advice advice = fitted(run, run.peak() * tenths / 10);
    ASSERT_TRUE(advice.fit->is_found);
    const std::size_t blocks = blocks_alone(*advice.fit);
    EXPECT_GT(blocks, last) << tenths;
    EXPECT_LT(blocks, 8) << tenths;
    last = blocks;
  }
}

TEST(Fit, what_keeps_the_results_comes_before_what_changes_them) {
  Shape shape = wide_run();
  shape.weight = 64 * kMiB;  // activations hardly matter
  shape.is_on_cpu = true;    // what is reserved plays no part
  const BlockRun run(shape);
  const std::uint64_t offloaded = predicted(run.advice(), "offload_optimizer");
  const Advice advice = fitted(run, offloaded + offloaded / 10);
  ASSERT_TRUE(advice.fit->is_found);
  // No second remedy, though its time is known and that of this one is not.
  EXPECT_EQ(advice.fit->set.names, std::vector<std::string>{"offload_optimizer"});
}

TEST(Fit, alternatives_fit_too_and_are_other_sets) {
  const BlockRun run(wide_run());
  const std::uint64_t limit = run.peak() * 7 / 10;
  const Advice advice = fitted(run, limit);
  ASSERT_TRUE(advice.fit->is_found);
  ASSERT_FALSE(advice.fit->alternatives.empty());
  EXPECT_LE(advice.fit->alternatives.size(), 3);
  for (const RemedySet& set : advice.fit->alternatives) {
    EXPECT_NE(set.names, advice.fit->set.names);
    EXPECT_LE(set.peak_allocated.bytes, limit);
    EXPECT_LE(set.peak_reserved->bytes, limit);
  }
}

TEST(Sequence, is_null_where_nothing_shows_one) {
  const Remedy entry = remedy(BlockRun(wide_run()).advice(), "sequence_x2");
  EXPECT_FALSE(entry.peak_allocated.has_value());
  EXPECT_THAT(entry.why, testing::HasSubstr("no sequences"));
}

Shape attending() {
  Shape shape = wide_run();
  shape.scores = 8 * kMiB;
  return shape;
}

Shape longer(Shape shape, std::uint64_t factor) {
  shape.normed *= factor;
  shape.wide *= factor;
  shape.input *= factor;
  shape.scores *= factor * factor;
  return shape;
}

TEST(Sequence, scales_what_softmax_makes_of_tokens_by_tokens_with_the_square) {
  const Advice advice = BlockRun(attending()).advice();
  EXPECT_EQ(predicted(advice, "sequence_x2"), BlockRun(longer(attending(), 2)).peak());
  EXPECT_THAT(remedy(advice, "sequence_x2").why, testing::HasSubstr("square"));
  EXPECT_EQ(predicted(BlockRun(longer(attending(), 2)).advice(), "sequence_x0.5"),
            BlockRun(attending()).peak());
}

// The norm's result does not grow: only the other recording can show that.
TEST(Sequence, another_length_measures_how_each_allocation_grows) {
  Shape other_shape = longer(attending(), 2);
  other_shape.normed = attending().normed;
  const BlockRun run(attending());
  const BlockRun other(other_shape);
  const std::vector<std::vector<PhaseSpan>> phases = {other.phases()};
  AdviceOptions options;
  options.other = OtherRun{&other.store(), &phases};
  const Advice advice = run.advice(options);
  EXPECT_EQ(predicted(advice, "sequence_x2"), other.peak());
  EXPECT_THAT(remedy(advice, "sequence_x2").why, testing::HasSubstr("measured"));
  // What it shows about the length says nothing about batches.
  EXPECT_EQ(predicted(advice, "batch_x2"), predicted(run.advice(), "batch_x2"));
}

TEST(Sequence, fitting_says_the_longest_that_fits_in_tokens) {
  const BlockRun run(attending());
  AdviceOptions options;
  options.fit_bytes = 3 * run.peak();
  options.sequence = 100;
  const Advice advice = run.advice(options);
  ASSERT_TRUE(advice.fit->largest_sequence_factor.has_value());
  EXPECT_GT(*advice.fit->largest_sequence_factor, 1);
  // Squares grow faster than batches do.
  EXPECT_LE(*advice.fit->largest_sequence_factor, advice.fit->largest_batch_factor);
  EXPECT_EQ(*advice.fit->largest_sequence,
            static_cast<std::uint64_t>(100 * *advice.fit->largest_sequence_factor));
}

// What is checkpointed in a run with these modules when checkpointing some of them is enough.
CheckpointedBlocks some_blocks(std::vector<std::string> modules) {
  Shape shape = deep_run();
  shape.modules = std::move(modules);
  const BlockRun run(shape);
  const FitPlan plan = fitted(run, run.peak() * 9 / 10).fit.value();
  std::vector<RemedySet> sets = plan.alternatives;
  sets.push_back(plan.set);
  for (const RemedySet& set : sets) {
    if (set.checkpointed && set.checkpointed->which.size() < set.checkpointed->of)
      return *set.checkpointed;
  }
  ADD_FAILURE() << "no set checkpoints some of the blocks";
  return {};
}

std::vector<std::string> list_of(const std::string& list, int modules) {
  std::vector<std::string> paths;
  for (int index = 0; index < modules; ++index) paths.push_back(list + "." + std::to_string(index));
  return paths;
}

TEST(CheckpointedModules, are_named_by_the_instances_that_ran) {
  const CheckpointedBlocks blocks = some_blocks(list_of("net.h", 8));
  ASSERT_EQ(blocks.modules.size(), blocks.which.size());
  for (std::size_t index = 0; index < blocks.which.size(); ++index)
    EXPECT_EQ(blocks.modules[index], "net.h." + std::to_string(blocks.which[index]));
  EXPECT_THAT(blocks.how, testing::HasSubstr("enumerate(model.net.h)"));
}

// Only the count could identify the list, and no list has that many.
TEST(CheckpointedModules, that_are_no_whole_list_are_named_one_by_one) {
  const std::vector<std::string> paths = {"stem",   "body.1", "body.3", "body.5",
                                          "body.7", "neck",   "hands",  "head"};
  const CheckpointedBlocks blocks = some_blocks(paths);
  ASSERT_EQ(blocks.modules.size(), blocks.which.size());
  std::string list;
  for (std::size_t index = 0; index < blocks.which.size(); ++index) {
    EXPECT_EQ(blocks.modules[index], paths[blocks.which[index]]);
    const std::string& path = paths[blocks.which[index]];
    const std::size_t dot = path.find('.');
    list +=
        (list.empty() ? "model." : ", model.") +
        (dot == std::string::npos ? path : path.substr(0, dot) + "[" + path.substr(dot + 1) + "]");
  }
  EXPECT_THAT(blocks.how, testing::HasSubstr("for block in [" + list + "]:"));
}

TEST(CheckpointedModules, of_two_lists_are_those_of_both) {
  std::vector<std::string> paths = list_of("encoder", 5);
  for (const std::string& path : list_of("decoder", 3)) paths.push_back(path);
  EXPECT_THAT(some_blocks(paths).how,
              testing::HasSubstr("enumerate([*model.encoder, *model.decoder])"));
}

TEST(CheckpointedModules, that_are_one_module_run_again_and_again_are_not_wrapped) {
  const CheckpointedBlocks blocks = some_blocks(std::vector<std::string>(8, "shared"));
  EXPECT_THAT(blocks.modules, testing::Each("shared"));
  EXPECT_THAT(blocks.how, testing::HasSubstr("self.blocks"));
}

TEST(CheckpointedModules, of_two_models_with_the_same_names_are_not_wrapped) {
  std::vector<std::string> paths = list_of("h", 4);
  for (const std::string& path : list_of("h", 4)) paths.push_back(path);
  EXPECT_THAT(some_blocks(paths).how, testing::HasSubstr("self.blocks"));
}

TEST(CheckpointedModules, are_not_named_where_the_recording_names_none) {
  EXPECT_TRUE(some_blocks({}).modules.empty());
}

Shape zeroing(Shape::Zeroing how) {
  Shape shape = wide_run();
  shape.weight = 24 * kMiB;
  shape.zeroing = how;
  return shape;
}

TEST(ZeroGrad, to_none_equals_the_run_that_drops_its_gradients) {
  const Advice advice = BlockRun(zeroing(Shape::Zeroing::in_place)).advice();
  EXPECT_EQ(predicted(advice, "zero_grad_to_none"),
            BlockRun(zeroing(Shape::Zeroing::behind_step)).peak());
  EXPECT_GT(remedy(advice, "zero_grad_to_none").saving_bytes, 0);
  EXPECT_THAT(remedy(advice, "zero_grad_early").why, testing::HasSubstr("zero_grad_to_none"));
}

TEST(ZeroGrad, early_equals_the_run_that_drops_them_behind_the_step) {
  const Advice advice = BlockRun(zeroing(Shape::Zeroing::before_backward)).advice();
  EXPECT_EQ(predicted(advice, "zero_grad_early"),
            BlockRun(zeroing(Shape::Zeroing::behind_step)).peak());
}

TEST(ZeroGrad, says_that_nothing_is_left_to_do) {
  const Advice advice = BlockRun(zeroing(Shape::Zeroing::behind_step)).advice();
  EXPECT_FALSE(remedy(advice, "zero_grad_to_none").peak_allocated.has_value());
  EXPECT_THAT(remedy(advice, "zero_grad_early").why, testing::HasSubstr("already"));
}

TEST(EmptyCache, needs_the_same_memory_and_counts_what_is_asked_for_again) {
  const BlockRun run(wide_run());
  const Advice advice = run.advice();
  EXPECT_EQ(predicted(advice, "empty_cache"), run.peak());
  EXPECT_THAT(remedy(advice, "empty_cache").why,
              testing::HasSubstr("segments must be allocated again"));
  EXPECT_THAT(remedy(advice, "empty_cache").why, testing::Not(testing::HasSubstr("about 0 ")));
}

TEST(Autocast, fp16_takes_what_bf16_takes_and_needs_a_scaler) {
  const Advice advice = BlockRun(wide_run()).advice();
  EXPECT_EQ(predicted(advice, "autocast_fp16"), predicted(advice, "autocast_bf16"));
  EXPECT_THAT(remedy(advice, "autocast_fp16").how, testing::HasSubstr("GradScaler"));
}

}  // namespace
}  // namespace gpumemprof
