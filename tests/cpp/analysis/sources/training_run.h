// Training: a handwritten run of a model of two weights, whose allocations are known by what they
// are for.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "analysis/run_builder.h"
#include "base/bytes.h"

namespace gpumemprof {

inline constexpr std::uint64_t kWeight = 3 * kMiB + 100;

// A model of two weights, trained for some steps by an optimizer with one state per weight.
struct Training : RunBuilder {
  std::vector<std::size_t> weights;
  std::vector<std::size_t> states;
  std::vector<std::size_t> gradients;
  std::vector<std::size_t> batches;
  std::vector<std::size_t> activations;
  std::vector<std::size_t> forward_scratch;
  std::vector<std::size_t> backward_scratch;
  std::vector<std::size_t> step_scratch;

  void build() {
    for (int index = 0; index < 2; ++index) weights.push_back(alloc(kWeight, model_to()));
  }
  void run_forward() {
    batches.push_back(alloc(5 * kMiB, user()));
    forward_scratch.push_back(alloc(7 * kMiB, forward()));
    for (int layer = 0; layer < 2; ++layer) activations.push_back(alloc(9 * kMiB, forward()));
    free(forward_scratch.back(), forward());
  }
  void run_backward() {
    for (int layer = 0; layer < 2; ++layer) {
      backward_scratch.push_back(alloc(9 * kMiB, autograd()));
      gradients.push_back(alloc(kWeight, autograd()));
      free(backward_scratch.back(), autograd());
      free(activations[activations.size() - 1 - static_cast<std::size_t>(layer)], autograd());
    }
    free(batches.back(), user());
  }
  void run_optimizer() {
    if (states.empty()) {
      for (int index = 0; index < 2; ++index) states.push_back(alloc(kWeight, optimizer()));
    }
    step_scratch.push_back(alloc(kWeight, optimizer()));
    free(step_scratch.back(), optimizer());
  }
  void zero() {
    free(gradients[gradients.size() - 2], zero_grad());
    free(gradients[gradients.size() - 1], zero_grad());
  }
  void run_step() {
    run_forward();
    run_backward();
    run_optimizer();
    zero();
  }
  void expect(const std::vector<std::size_t>& allocations, MemorySource source) const {
    for (const std::size_t allocation : allocations) {
      EXPECT_EQ(memory_source_name(this->source(allocation)), memory_source_name(source))
          << "allocation " << allocation;
    }
  }
};

inline void expect_everything_known(const Training& run) {
  run.expect(run.weights, MemorySource::parameters);
  run.expect(run.states, MemorySource::optimizer_state);
  run.expect(run.gradients, MemorySource::gradients);
  run.expect(run.batches, MemorySource::inputs);
  run.expect(run.activations, MemorySource::activations);
  run.expect(run.forward_scratch, MemorySource::temporaries);
  run.expect(run.backward_scratch, MemorySource::temporaries);
  run.expect(run.step_scratch, MemorySource::temporaries);
}

}  // namespace gpumemprof
