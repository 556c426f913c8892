// Runs that run out of memory partway: completed from their own facts they equal the whole run, or
// every figure is a lower bound and no fit is promised.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analysis/block_run.h"
#include "analysis/overview/overview.h"

namespace gpumemprof {
namespace {

BlockRun cut_at(Shape shape, std::size_t event) {
  shape.fails_at = event;
  return BlockRun(shape);
}

// The first event of each step of the whole run.
std::vector<std::uint32_t> begins_of(const BlockRun& run) {
  std::vector<std::uint32_t> begins;
  for (const PhaseSpan& span : run.phases()) {
    if (span.step > begins.size()) begins.push_back(span.first_event);
  }
  return begins;
}

void expect_equal(const Advice& cut, const Advice& whole, std::size_t event) {
  ASSERT_TRUE(cut.completed.has_value()) << event << ": " << cut.partial;
  EXPECT_EQ(cut.completed->peak_allocated_bytes, whole.peak_allocated_bytes) << event;
  for (const Remedy& remedy : whole.remedies) {
    if (!remedy.peak_allocated) continue;
    const auto same = std::find_if(cut.remedies.begin(), cut.remedies.end(),
                                   [&](const Remedy& other) { return other.name == remedy.name; });
    ASSERT_TRUE(same->peak_allocated.has_value()) << event << " " << remedy.name << same->why;
    EXPECT_NEAR(static_cast<double>(same->peak_allocated->bytes),
                static_cast<double>(remedy.peak_allocated->bytes),
                0.01 * static_cast<double>(remedy.peak_allocated->bytes))
        << event << " " << remedy.name;
  }
}

TEST(Completion, a_step_that_fails_behind_a_whole_one_is_completed_to_the_same_figures) {
  for (const Shape::Zeroing zeroing :
       {Shape::Zeroing::behind_step, Shape::Zeroing::before_backward, Shape::Zeroing::in_place}) {
    Shape shape = wide_run();
    shape.zeroing = zeroing;
    const BlockRun whole(shape);
    const Advice advice = whole.advice();
    // One step alone does not show whether gradients are zeroed in place.
    const bool is_in_place = zeroing == Shape::Zeroing::in_place;
    const std::uint32_t from = begins_of(whole)[is_in_place ? 2 : 1];
    for (std::size_t event = from; event < whole.events(); event += 7) {
      const BlockRun cut = cut_at(shape, event);
      if (cut.is_over()) expect_equal(cut.advice(), advice, event);
    }
  }
}

TEST(Completion, accumulated_gradients_and_checkpoints_are_completed_too) {
  for (const bool is_accumulating : {false, true}) {
    Shape shape = wide_run();
    shape.is_accumulating = is_accumulating;
    shape.is_checkpointed = !is_accumulating;
    const BlockRun whole(shape);
    const std::uint32_t third = begins_of(whole)[2];
    for (std::size_t event = third; event < whole.events(); event += 11) {
      const BlockRun cut = cut_at(shape, event);
      if (cut.is_over()) expect_equal(cut.advice(), whole.advice(), event);
    }
  }
}

TEST(Completion, a_larger_batch_that_fails_behind_whole_steps_is_completed_in_its_own_size) {
  Shape twice = wide_run();
  twice.normed *= 2;
  twice.wide *= 2;
  twice.input *= 2;
  const BlockRun whole(twice);
  Shape shape = wide_run();
  shape.larger_from_step = 2;  // counted from 0: the last
  const BlockRun all(shape);
  const std::uint32_t last = begins_of(all)[2];
  shape.fails_at = last + 24;
  const Advice advice = BlockRun(shape).advice();
  ASSERT_TRUE(advice.completed.has_value()) << advice.partial;
  EXPECT_EQ(advice.completed->peak_allocated_bytes, whole.peak());
}

TEST(Completion, the_second_batch_of_a_run_is_loaded_in_the_size_that_was_asked_for) {
  for (const int factor : {1, 2}) {
    Shape large = wide_run();
    large.normed *= static_cast<std::uint64_t>(factor);
    large.wide *= static_cast<std::uint64_t>(factor);
    large.input *= static_cast<std::uint64_t>(factor);
    Shape shape = wide_run();
    if (factor == 2) shape.larger_from_step = 1;
    shape.fails_at = begins_of(BlockRun(shape))[1];
    const Advice advice = BlockRun(shape).advice();
    ASSERT_TRUE(advice.completed.has_value()) << advice.partial;
    EXPECT_EQ(advice.completed->peak_allocated_bytes, BlockRun(large).peak());
  }
}

TEST(Completion, the_first_step_of_a_known_optimizer_is_completed_by_its_state) {
  const BlockRun whole(wide_run());
  const Advice advice = whole.advice();
  std::uint32_t first = 0;
  std::uint32_t end = 0;
  for (const PhaseSpan& span : whole.phases()) {
    if (first != 0 && end == 0) end = span.first_event;
    if (first == 0 && span.phase == Phase::optimizer_step) first = span.first_event;
  }
  for (std::size_t event = first; event + 2 < end; event += 2) {
    const BlockRun cut = cut_at(wide_run(), event);
    const Advice completed = cut.advice();
    ASSERT_TRUE(completed.completed.has_value()) << event << completed.partial;
    EXPECT_EQ(completed.completed->peak_allocated_bytes, advice.peak_allocated_bytes) << event;
    EXPECT_EQ(predicted(completed, "sgd"), predicted(advice, "sgd")) << event;
    EXPECT_EQ(predicted(completed, "batch_x0.5"), predicted(advice, "batch_x0.5")) << event;
  }
}

TEST(Completion, a_first_forward_or_backward_gives_lower_bounds_and_refuses_to_fit) {
  const BlockRun whole(wide_run());
  const Advice truth = whole.advice();
  std::uint32_t step = 0;
  for (const PhaseSpan& span : whole.phases()) {
    if (step == 0 && span.phase == Phase::optimizer_step) step = span.first_event;
  }
  // After the last request of backward, the optimizer's first request is the one that fails.
  std::uint32_t last = 0;
  for (const std::uint32_t birth : whole.record().allocations.alloc_event) {
    if (birth < step) last = std::max(last, birth);
  }
  AdviceOptions options;
  options.fit_bytes = truth.peak_allocated_bytes / 2;
  for (std::size_t event = 24; event <= last; event += 5) {
    const Advice advice = cut_at(wide_run(), event).advice(options);
    EXPECT_FALSE(advice.completed.has_value()) << event;
    EXPECT_THAT(advice.partial, testing::HasSubstr("ran out of memory")) << event;
    ASSERT_TRUE(advice.fit.has_value());
    EXPECT_FALSE(advice.fit->is_found);
    EXPECT_FALSE(advice.fit->refusal.empty());
    for (const Remedy& remedy : advice.remedies) {
      EXPECT_FALSE(remedy.peak_allocated.has_value()) << event << " " << remedy.name;
      if (!remedy.at_least_bytes) continue;
      const auto same = std::find_if(truth.remedies.begin(), truth.remedies.end(),
                                     [&](const Remedy& one) { return one.name == remedy.name; });
      ASSERT_NE(same, truth.remedies.end());
      if (!same->peak_allocated) continue;
      EXPECT_LE(*remedy.at_least_bytes, same->peak_allocated->high_bytes)
          << event << " " << remedy.name;
    }
  }
}

TEST(Completion, lower_bounds_hold_for_the_first_step_of_an_optimizer_that_is_not_known) {
  // The optimizer's step makes the peak.
  Shape shape;
  shape.weight = 64 * kMiB;
  shape.optimizer_file = "rprop.py";
  const BlockRun whole(shape);
  const Advice truth = whole.advice();
  std::uint32_t first = 0;
  std::uint32_t end = 0;
  for (const PhaseSpan& span : whole.phases()) {
    if (first != 0 && end == 0) end = span.first_event;
    if (first == 0 && span.phase == Phase::optimizer_step) first = span.first_event;
  }
  std::size_t bounds = 0;
  for (std::size_t event = first; event < end; event += 2) {
    const Advice advice = cut_at(shape, event).advice();
    if (advice.completed) continue;  // after its last request
    EXPECT_FALSE(advice.partial.empty()) << event;
    for (const Remedy& remedy : advice.remedies) {
      EXPECT_FALSE(remedy.peak_allocated.has_value()) << event << " " << remedy.name;
      const auto same = std::find_if(truth.remedies.begin(), truth.remedies.end(),
                                     [&](const Remedy& one) { return one.name == remedy.name; });
      ASSERT_NE(same, truth.remedies.end());
      if (!remedy.at_least_bytes || !same->peak_allocated) continue;
      ++bounds;
      EXPECT_LE(*remedy.at_least_bytes, same->peak_allocated->bytes) << event << " " << remedy.name;
    }
  }
  EXPECT_GT(bounds, 0U);
}

TEST(Completion, a_program_that_goes_on_with_whole_steps_is_advised_as_it_is) {
  const BlockRun run(wide_run());
  EXPECT_FALSE(run.advice().completed.has_value());
  EXPECT_TRUE(run.advice().partial.empty());
}

TEST(Together, two_remedies_equal_the_run_with_both_and_have_a_band_of_at_least_the_sum) {
  Shape both = wide_run();
  both.states = 0;
  both.step_temporaries = 0;
  both.is_checkpointed = true;
  AdviceOptions options;
  options.together = {{"checkpointing", "sgd"}};
  const Advice advice = BlockRun(wide_run()).advice(options);
  const Remedy& entry = remedy(advice, "checkpointing+sgd");
  ASSERT_TRUE(entry.peak_allocated.has_value());
  const auto truth = static_cast<double>(BlockRun(both).peak());
  EXPECT_NEAR(static_cast<double>(entry.peak_allocated->bytes), truth, 0.02 * truth);
  const auto width = [](const PredictedBytes& bytes) {
    return static_cast<double>(bytes.high_bytes - bytes.low_bytes) /
           static_cast<double>(bytes.bytes);
  };
  EXPECT_GE(width(*entry.peak_allocated) + 1e-6,
            width(*remedy(advice, "checkpointing").peak_allocated) +
                width(*remedy(advice, "sgd").peak_allocated));
}

TEST(Together, what_changes_the_same_thing_is_refused) {
  const BlockRun run(wide_run());
  AdviceOptions options;
  options.together = {{"sgd", "lion"}};
  EXPECT_FALSE(advise(run.store(), {run.replay()}, {run.phases()}, "run", options).ok());
  options.together = {{"sgd", "faster"}};
  EXPECT_FALSE(advise(run.store(), {run.replay()}, {run.phases()}, "run", options).ok());
}

TEST(Fit, names_the_least_it_can_be_brought_to_where_nothing_fits) {
  const BlockRun run(wide_run());
  AdviceOptions options;
  options.fit_bytes = kMiB;
  const Advice advice = run.advice(options);
  ASSERT_TRUE(advice.fit.has_value() && !advice.fit->is_found);
  ASSERT_TRUE(advice.fit->least.has_value());
  EXPECT_FALSE(advice.fit->least->names.empty());
  EXPECT_EQ(advice.fit->least->code.size(), advice.fit->least->names.size());
  options.fit_bytes = advice.fit->least_limit_bytes;
  EXPECT_TRUE(run.advice(options).fit->is_found);
  options.fit_bytes = advice.fit->least_limit_bytes * 9 / 10;
  EXPECT_FALSE(run.advice(options).fit->is_found);
}

TEST(Completion, a_report_knows_whether_the_need_of_a_failed_run_is_known) {
  const auto is_need_known = [](const BlockRun& run) {
    const Result<Overview> overview =
        make_overview(run.store(), {run.replay()}, {run.phases()}, "run", {});
    EXPECT_TRUE(overview.ok());
    EXPECT_FALSE(overview.value().devices[0].ooms.empty());
    return overview.value().devices[0].ooms[0].is_need_known;
  };
  Shape shape;
  shape.fails_at = begins_of(BlockRun({}))[2] + 8;  // there are whole steps before it
  EXPECT_TRUE(is_need_known(BlockRun(shape)));
  shape.fails_at = begins_of(BlockRun({}))[0] + 8;
  EXPECT_FALSE(is_need_known(BlockRun(shape)));
}

}  // namespace
}  // namespace gpumemprof
