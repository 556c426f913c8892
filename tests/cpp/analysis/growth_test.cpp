// Growth from step to step, in handwritten runs: what grows is found with its line and its rate;
// what is made once, filled up or replaced does not count as growth.
#include "analysis/growth/growth.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <functional>

#include "analysis/run_builder.h"
#include "base/bytes.h"

namespace gpumemprof {
namespace {

constexpr std::uint64_t kKept = 256 * kKiB;

// Trains one weight: forward, backward, a step with state, gradients dropped. `each` runs at the
// end of every pass of the loop, where what it allocates begins the next step; `in_step` after
// every forward.
class GrowingRun : public RunBuilder {
 public:
  explicit GrowingRun(int steps, const std::function<void(GrowingRun&, int)>& each,
                      const std::function<void(GrowingRun&)>& at_end = nullptr,
                      const std::function<void(GrowingRun&, int)>& in_step = nullptr) {
    alloc(4 * kMiB, model_to());
    for (int step = 1; step <= steps; ++step) {
      const std::size_t saved = alloc(8 * kMiB, forward());
      if (in_step) in_step(*this, step);
      const std::size_t gradient = alloc(4 * kMiB, autograd());
      free(saved, autograd());
      if (step == 1) {
        alloc(4 * kMiB, optimizer());
        alloc(4 * kMiB, optimizer());
      }
      free(alloc(4 * kMiB, optimizer()), optimizer());
      free(gradient, zero_grad());
      each(*this, step);
    }
    if (at_end) at_end(*this);
    finish();
  }

  StackId keeping() { return stack({"<module>@/train/train.py", "keep@/train/log.py"}); }
  [[nodiscard]] Growth growth() const { return find_growth(store(), record(), phases()); }

  std::deque<std::size_t> kept;
};

TEST(Growth, memory_kept_in_every_step_is_found_with_its_line_and_its_pace) {
  const GrowingRun trained(
      10, [](GrowingRun& run, int) { run.kept.push_back(run.alloc(kKept, run.keeping())); });
  const Growth growth = trained.growth();
  ASSERT_TRUE(growth.is_growing);
  EXPECT_NEAR(growth.bytes_per_step, kKept, 1);
  // Without marks, a step ends after the optimizer's step.
  EXPECT_EQ(growth.since_step, 2U);
  ASSERT_FALSE(growth.line.is_none());
  EXPECT_EQ(trained.store().text(trained.store().frame(growth.line).file), "/train/log.py");
  EXPECT_EQ(growth.lines.size(), 1U);
  EXPECT_EQ(growth.rows.size(), 10U);
}

TEST(Growth, what_is_kept_from_a_later_step_on_or_in_every_third_is_found_too) {
  const GrowingRun late(20, [](GrowingRun& run, int step) {
    if (step >= 8) run.kept.push_back(run.alloc(kKept, run.keeping()));
  });
  EXPECT_TRUE(late.growth().is_growing);
  EXPECT_EQ(late.growth().since_step, 9U);
  const GrowingRun slow(30, [](GrowingRun& run, int step) {
    if (step % 3 == 0) run.kept.push_back(run.alloc(kKept, run.keeping()));
  });
  EXPECT_TRUE(slow.growth().is_growing);
  EXPECT_NEAR(slow.growth().bytes_per_step, kKept / 3.0, kKept / 10.0);
}

TEST(Growth, it_begins_with_the_first_step_that_keeps_something) {
  for (const int first : {1, 2, 3, 8}) {
    const GrowingRun trained(
        20, [](GrowingRun&, int) {}, nullptr,
        [&](GrowingRun& run, int step) {
          if (step >= first) run.kept.push_back(run.alloc(kKept, run.keeping()));
        });
    const Growth growth = trained.growth();
    ASSERT_TRUE(growth.is_growing) << first;
    EXPECT_EQ(growth.since_step, static_cast<std::uint32_t>(first));
    EXPECT_NEAR(growth.bytes_per_step, kKept, 1) << first;
  }
}

TEST(Growth, one_block_that_is_replaced_by_a_larger_one_grows) {
  const GrowingRun trained(12, [](GrowingRun& run, int step) {
    const std::size_t larger = run.alloc(static_cast<std::uint64_t>(step) * kKept, run.keeping());
    if (!run.kept.empty()) run.free(run.kept.back(), run.keeping());
    run.kept.push_back(larger);
  });
  EXPECT_TRUE(trained.growth().is_growing);
}

TEST(Growth, a_program_that_tears_everything_down_has_grown_all_the_same) {
  const GrowingRun trained(
      10, [](GrowingRun& run, int) { run.kept.push_back(run.alloc(kKept, run.keeping())); },
      [](GrowingRun& run) {
        for (const std::size_t row : run.kept) run.free(row, run.user());
      });
  EXPECT_TRUE(trained.growth().is_growing);
}

TEST(Growth, plain_training_does_not_grow) {
  const Growth growth = GrowingRun(20, [](GrowingRun&, int) {}).growth();
  EXPECT_TRUE(growth.is_known);
  EXPECT_FALSE(growth.is_growing);
  EXPECT_TRUE(growth.rows.empty());
}

TEST(Growth, a_cache_with_a_bound_and_one_that_fills_up_are_none) {
  const GrowingRun bounded(30, [](GrowingRun& run, int) {
    run.kept.push_back(run.alloc(kKept, run.keeping()));
    if (run.kept.size() > 8) {
      run.free(run.kept.front(), run.keeping());
      run.kept.pop_front();
    }
  });
  EXPECT_FALSE(bounded.growth().is_growing);
  const GrowingRun filled(30, [](GrowingRun& run, int step) {
    if (step <= 6) run.kept.push_back(run.alloc(kKept, run.keeping()));
  });
  EXPECT_FALSE(filled.growth().is_growing);
}

TEST(Growth, outputs_of_many_lengths_that_come_and_go_are_none) {
  const GrowingRun trained(24, [](GrowingRun& run, int step) {
    const std::uint64_t length = 1 + static_cast<std::uint64_t>(step * 7 % 11);
    const std::size_t now = run.alloc(length * kKept, run.keeping());
    if (!run.kept.empty()) run.free(run.kept.back(), run.keeping());
    run.kept.push_back(now);
  });
  EXPECT_FALSE(trained.growth().is_growing);
}

TEST(Growth, a_list_of_scalars_is_not_worth_a_word_and_four_steps_say_nothing) {
  const GrowingRun scalars(40, [](GrowingRun& run, int) { run.alloc(512, run.keeping()); });
  EXPECT_FALSE(scalars.growth().is_growing);
  const GrowingRun few(4, [](GrowingRun& run, int) { run.alloc(kKept, run.keeping()); });
  EXPECT_FALSE(few.growth().is_known);
}

TEST(Growth, what_forward_made_and_the_program_keeps_is_activations_that_no_step_needs) {
  const GrowingRun trained(
      10, [](GrowingRun& run, int) { run.kept.push_back(run.alloc(kKept, run.forward())); });
  ASSERT_TRUE(trained.growth().is_growing);
  for (const std::size_t block : trained.kept)
    EXPECT_EQ(trained.source(block), MemorySource::activations);
  const DeviceRecord& record = trained.record();
  std::size_t grown = 0;
  for (std::size_t row = 0; row < record.allocations.size(); ++row) {
    if (record.allocations.requested_bytes[row] != kKept) continue;
    ++grown;
    EXPECT_EQ(record.labels.source_in_step(row), MemorySource::unknown);
  }
  EXPECT_EQ(grown, 10U);
  for (const StepFigures& step : trained.sources().steps) {
    if (step.step > 0 && step.step <= 10) {
      EXPECT_EQ(step.saved_for_backward_bytes, 8 * kMiB);
    }
  }
}

TEST(Growth, what_backward_made_and_the_program_keeps_is_gradients) {
  const GrowingRun trained(
      10, [](GrowingRun&, int) {}, nullptr,
      [](GrowingRun& run, int) {
        run.kept.push_back(run.alloc(
            kKept, run.stack({"<module>@/train/train.py", "backward@torch/autograd/__init__.py",
                              "keep@/train/log.py"})));
      });
  ASSERT_TRUE(trained.growth().is_growing);
  for (const std::size_t block : trained.kept)
    EXPECT_EQ(trained.source(block), MemorySource::gradients);
}

TEST(Growth, what_a_line_of_the_program_keeps_is_unknown_unless_it_is_a_named_input) {
  const GrowingRun trained(
      10, [](GrowingRun& run, int) { run.kept.push_back(run.alloc(kKept, run.keeping())); });
  for (const std::size_t row : trained.kept) EXPECT_EQ(trained.source(row), MemorySource::unknown);
  const GrowingRun fed(10, [](GrowingRun& run, int step) {
    run.kept.push_back(run.alloc(kKept, run.keeping()));
    if (step == 1) run.label(run.kept.back(), LabelKind::input, "input.0");
  });
  ASSERT_TRUE(fed.growth().is_growing);
  for (const std::size_t row : fed.kept) EXPECT_EQ(fed.source(row), MemorySource::inputs);
}

TEST(Growth, a_recording_without_steps_or_events_says_nothing) {
  RunBuilder run;
  run.alloc(kMiB, run.user());
  run.finish();
  EXPECT_FALSE(find_growth(run.store(), run.record(), run.phases()).is_known);
  EXPECT_FALSE(find_growth(run.store(), run.record(), {}).is_known);
}

}  // namespace
}  // namespace gpumemprof
