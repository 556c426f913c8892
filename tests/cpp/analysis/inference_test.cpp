// Advice for runs without a backward, including one that ran out of memory.
#include <gtest/gtest.h>

#include <algorithm>

#include "analysis/advice/advice.h"
#include "analysis/run_builder.h"
#include "base/bytes.h"

namespace gpumemprof {
namespace {

constexpr std::uint64_t kWeights = 64 * kMiB;

// A model that is called repeatedly; every layer's output is freed once the next layer has used it.
class Serving : public RunBuilder {
 public:
  Serving() { alloc(kWeights, model_to()); }

  void call(int layers = 8) {
    const std::size_t input = alloc(kMiB, user());
    std::size_t last = input;
    for (int layer = 0; layer < layers; ++layer) {
      const std::size_t next = alloc(4 * kMiB, forward());
      if (last != input) free(last, forward());
      last = next;
    }
    free(last, user());
    free(input, user());
  }
  [[nodiscard]] Advice advice(const AdviceOptions& options = {}) const {
    Result<Advice> result = advise(store(), {replay()}, {phases()}, "run", options);
    EXPECT_TRUE(result.ok());
    return result ? std::move(result).value() : Advice{};
  }
};

TEST(InferenceAdvice, whole_runs_get_figures_and_a_fit) {
  Serving run;
  for (int call = 0; call < 4; ++call) run.call();
  run.finish();
  AdviceOptions options;
  options.fit_bytes = 70 * kMiB;
  const Advice advice = run.advice(options);
  EXPECT_EQ(advice.kind, RunKind::inference);
  EXPECT_TRUE(advice.partial.empty());
  ASSERT_TRUE(advice.fit.has_value());
  EXPECT_TRUE(advice.fit->is_found);
  EXPECT_LE(advice.fit->set.peak_allocated.high_bytes, 70 * kMiB);
}

// This recording does not say in which precision the weights are: they may be in 16 bits already.
TEST(InferenceAdvice, a_saving_that_is_not_certain_makes_nothing_fit) {
  Serving run;
  for (int call = 0; call < 4; ++call) run.call();
  run.finish();
  AdviceOptions options;
  options.fit_bytes = 40 * kMiB;
  const Advice advice = run.advice(options);
  const auto half = std::ranges::find(advice.remedies, "half_precision", &Remedy::name);
  ASSERT_NE(half, advice.remedies.end());
  EXPECT_LT(half->peak_allocated->bytes, 40 * kMiB);
  EXPECT_GE(half->peak_allocated->high_bytes, advice.peak_allocated_bytes);
  const std::vector<std::string>& names = advice.fit->set.names;
  EXPECT_EQ(std::ranges::find(names, "half_precision"), names.end());
}

TEST(InferenceAdvice, a_run_that_ran_out_of_memory_gets_lower_bounds_and_no_fit) {
  Serving run;
  for (int call = 0; call < 4; ++call) run.call();
  run.oom(512 * kMiB, run.forward());
  run.finish();
  AdviceOptions options;
  options.fit_bytes = 60 * kMiB;
  const Advice advice = run.advice(options);
  EXPECT_EQ(advice.kind, RunKind::inference);
  EXPECT_FALSE(advice.partial.empty());
  EXPECT_EQ(advice.fit->refusal, advice.partial);
  for (const Remedy& remedy : advice.remedies) EXPECT_FALSE(remedy.peak_allocated.has_value());
  EXPECT_GT(advice.remedies.front().at_least_bytes.value_or(0), 0U);
}

TEST(InferenceAdvice, a_program_that_goes_on_after_the_error_is_whole) {
  Serving run;
  for (int call = 0; call < 2; ++call) run.call();
  run.oom(512 * kMiB, run.forward());
  for (int call = 0; call < 2; ++call) run.call();
  run.finish();
  EXPECT_TRUE(run.advice().partial.empty());
}

}  // namespace
}  // namespace gpumemprof
