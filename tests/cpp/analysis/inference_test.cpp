// Advice for runs without a backward, including one that ran out of memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>

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

// Keys and values are views of the projection in the first call, and copies that grow from then on;
// the program replaces the list of all layers when a call returns.
TEST(InferenceSources, what_the_first_call_projects_is_the_cache_until_copies_replace_it) {
  constexpr int kLayers = 4;
  Serving run;
  const auto in_model = [&](std::string_view line) {
    return run.stack({"<module>@/train/train.py", "_wrapped_call_impl@torch/nn/modules/module.py",
                      "forward@/train/model.py", line});
  };
  const StackId project = in_model("project@/train/model.py");
  // Hooks run in the first calls only.
  const auto grow = [&](std::uint64_t call) {
    const std::string hooked = call < 2 ? "_hooked" : "";
    return std::array{in_model("grow_keys" + hooked + "@/train/model.py"),
                      in_model("grow_values" + hooked + "@/train/model.py")};
  };
  std::vector<std::size_t> projected;
  std::vector<std::size_t> grown;
  std::vector<std::size_t> outputs;
  std::vector<std::size_t> past;
  for (std::uint64_t call = 0; call < 8; ++call) {
    run.free(run.alloc(512, run.user()), run.user());
    std::vector<std::size_t> now;
    for (int layer = 0; layer < kLayers; ++layer) {
      run.free(run.alloc(4 * kMiB, run.forward()), run.forward());
      if (call == 0) {
        projected.push_back(run.alloc(3 * kMiB, project));
        now.push_back(projected.back());
      } else {
        for (const StackId stack : grow(call)) {
          grown.push_back(run.alloc((16 + call) * 64 * kKiB, stack));
          now.push_back(grown.back());
        }
      }
      run.free(run.alloc(4 * kMiB, run.forward()), run.forward());
    }
    outputs.push_back(run.alloc(5 * kMiB, run.forward()));
    if (call > 0) run.free(outputs[call - 1], run.user());
    for (const std::size_t block : past) run.free(block, run.user());
    past = now;
  }
  run.finish();
  EXPECT_EQ(run.advice().kind, RunKind::inference);
  for (const std::size_t block : projected) EXPECT_EQ(run.source(block), MemorySource::kv_cache);
  for (const std::size_t block : grown) EXPECT_EQ(run.source(block), MemorySource::kv_cache);
  for (const std::size_t block : outputs) EXPECT_EQ(run.source(block), MemorySource::activations);
}

TEST(InferenceAdvice, workspaces_of_cublas_are_no_outputs_that_forward_keeps) {
  Serving run;
  run.alloc(32 * kMiB, run.forward());
  run.alloc(kMiB, run.forward());
  for (int call = 0; call < 8; ++call) run.call(2);
  run.finish();
  EXPECT_EQ(run.advice().kind, RunKind::inference);
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
