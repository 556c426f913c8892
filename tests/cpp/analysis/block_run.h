// BlockRun: handwritten training runs of a model made of blocks in a loop, and the advice for
// them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "analysis/advice/advice.h"
#include "analysis/run_builder.h"
#include "base/bytes.h"

namespace gpumemprof {

inline constexpr std::string_view kCall = "_wrapped_call_impl@torch/nn/modules/module.py";

struct Shape {
  std::uint64_t weight = 6 * kMiB;
  std::uint64_t normed = 4 * kMiB;  // per batch: the result of the norm, and the block's own
  std::uint64_t wide = 8 * kMiB;    // per batch: inside the block
  std::uint64_t input = 2 * kMiB;
  int blocks = 4;
  int steps = 3;
  int states = 2;            // for each weight
  int step_temporaries = 1;  // for each weight, all at once
  bool is_checkpointed = false;
  bool is_accumulating = false;  // two passes before each step
  bool has_stacks = true;
  bool is_on_cpu = false;
  std::string_view optimizer_file = "adam.py";  // one of torch's own
  int checkpointed_first = 0;                   // only this many of the first blocks
  bool keeps_products = false;                  // checkpointed blocks keep linear layers' outputs
  std::uint64_t scores = 0;   // per batch: a softmax over tokens by tokens inside the block
  int larger_from_step = -1;  // counted from 0: batches twice as large from then on
  std::size_t fails_at = static_cast<std::size_t>(-1);  // event where memory runs out
  std::vector<std::string> modules;  // the path of each block; none: the recording names no modules
  enum class Zeroing { behind_step, before_backward, in_place } zeroing = Zeroing::behind_step;
};

// A model of blocks in a loop: norm, linear layer, activation function, residual sum.
class BlockRun : public RunBuilder {
 public:
  explicit BlockRun(const Shape& shape) : shape_(shape) {
    fail_at(shape.fails_at);
    if (shape.is_on_cpu) on_cpu();
    for (const std::string& path : shape.modules) {
      modules_.push_back(module(path, "Block"));
      norms_.push_back(module(path + ".norm", "LayerNorm"));
    }
    for (int block = 0; block < shape.blocks; ++block)
      alloc(shape.weight, known({"<module>@/train/train.py", "to@torch/nn/modules/module.py"}));
    for (int step = 0; step < shape.steps; ++step) {
      if (step == shape.larger_from_step) {
        shape_.normed *= 2;
        shape_.wide *= 2;
        shape_.input *= 2;
      }
      for (int pass = 0; pass < (shape.is_accumulating ? 2 : 1); ++pass) {
        const bool is_first = pass == 0;
        run_forward();
        if (shape.zeroing == Shape::Zeroing::before_backward && is_first) drop_gradients();
        run_backward(is_first);
        free(batch_, known({"<module>@/train/train.py"}));
      }
      run_optimizer();
      if (shape.zeroing == Shape::Zeroing::behind_step) drop_gradients();
    }
    finish();
  }

  [[nodiscard]] std::uint64_t peak() const { return replay().peak.allocated_bytes; }
  [[nodiscard]] Advice advice(const AdviceOptions& options = {}) const {
    Result<Advice> result = advise(store(), {replay()}, {phases()}, "run", options);
    EXPECT_TRUE(result.ok());
    return result ? std::move(result).value() : Advice{};
  }

 private:
  struct Saved {
    std::size_t normed = 0;
    std::size_t scores = 0;
    std::size_t wide = 0;
    std::size_t active = 0;
    std::size_t sum = 0;
  };

  StackId known(const std::vector<std::string_view>& frames) {
    return shape_.has_stacks ? stack(frames) : StackId();
  }
  StackId known_zero() { return shape_.has_stacks ? zero_grad() : StackId(); }
  StackId in_block(const std::vector<std::string_view>& inner, bool is_again) {
    std::vector<std::string_view> frames = {"<module>@/train/train.py", kCall,
                                            "forward@/train/model.py", kCall,
                                            "forward@/train/block.py"};
    if (is_again) frames = {"unpack_hook@torch/utils/checkpoint.py", "forward@/train/block.py"};
    frames.insert(frames.end(), inner.begin(), inner.end());
    return known(frames);
  }

  void drop_gradients() {
    for (const std::size_t gradient : gradients_) free(gradient, known_zero());
    gradients_.clear();
  }
  [[nodiscard]] bool is_checkpointed(int block) const {
    return shape_.is_checkpointed || block < shape_.checkpointed_first;
  }

  void enter(const std::vector<std::uint32_t>& modules, int block) {
    in_module(modules.empty() ? kNoModule : modules[static_cast<std::size_t>(block)]);
  }

  Saved run_block(int block, bool is_again) {
    Saved saved;
    enter(norms_, block);
    saved.normed =
        alloc(shape_.normed, in_block({kCall, "forward@torch/nn/modules/normalization.py",
                                       "layer_norm@torch/nn/functional.py"},
                                      is_again));
    enter(modules_, block);
    if (shape_.scores > 0)
      saved.scores = alloc(shape_.scores, in_block({"softmax@torch/nn/functional.py"}, is_again));
    if (!(is_again && shape_.keeps_products))
      saved.wide =
          alloc(shape_.wide, in_block({kCall, "forward@torch/nn/modules/linear.py"}, is_again));
    saved.active = alloc(shape_.wide, in_block({"gelu@torch/nn/functional.py"}, is_again));
    if (!is_again) saved.sum = alloc(shape_.normed, in_block({}, is_again));
    in_module(kNoModule);
    return saved;
  }
  void drop(const Saved& saved, bool is_again) {
    const StackId stack = in_block({}, is_again);
    free(saved.active, stack);
    if (!shape_.keeps_products) free(saved.wide, stack);
    if (shape_.scores > 0) free(saved.scores, stack);
    free(saved.normed, stack);
  }

  void run_forward() {
    batch_ = alloc(shape_.input, known({"<module>@/train/train.py"}));
    for (int block = 0; block < shape_.blocks; ++block) {
      saved_.push_back(run_block(block, false));
      if (is_checkpointed(block)) drop(saved_.back(), false);
    }
  }

  void run_backward(bool is_first) {
    while (!saved_.empty()) {
      Saved saved = saved_.back();
      saved_.pop_back();
      const std::size_t sum = saved.sum;
      if (is_checkpointed(static_cast<int>(saved_.size()))) {
        const std::size_t kept = saved.wide;
        saved = run_block(static_cast<int>(saved_.size()), true);
        if (shape_.keeps_products) saved.wide = kept;
      }
      const std::size_t wide = alloc(shape_.wide, autograd());
      free(saved.active, autograd());
      free(saved.wide, autograd());
      if (shape_.scores > 0) free(saved.scores, autograd());
      const std::size_t part = alloc(shape_.weight, autograd());
      free(wide, autograd());
      free(saved.normed, autograd());
      const bool is_new = gradients_.size() < static_cast<std::size_t>(shape_.blocks);
      if (is_first && is_new) {
        gradients_.push_back(part);
      } else {
        free(part, autograd());
      }
      free(sum, autograd());
    }
  }

  void run_optimizer() {
    const std::string step = "step@torch/optim/" + std::string(shape_.optimizer_file);
    const StackId stack =
        known({"<module>@/train/train.py", "wrapper@torch/optim/optimizer.py", step});
    if (!has_states_) {
      for (int state = 0; state < shape_.states * shape_.blocks; ++state)
        alloc(shape_.weight, stack);
    }
    has_states_ = true;
    std::vector<std::size_t> temporaries;
    for (int index = 0; index < shape_.step_temporaries * shape_.blocks; ++index)
      temporaries.push_back(alloc(shape_.weight, stack));
    for (const std::size_t temporary : temporaries) free(temporary, stack);
  }

  Shape shape_;
  std::vector<std::uint32_t> modules_;  // numbers, by block
  std::vector<std::uint32_t> norms_;
  std::size_t batch_ = 0;
  bool has_states_ = false;
  std::vector<Saved> saved_;
  std::vector<std::size_t> gradients_;
};

inline const Remedy& remedy(const Advice& advice, std::string_view name) {
  const auto found = std::find_if(advice.remedies.begin(), advice.remedies.end(),
                                  [&](const Remedy& entry) { return entry.name == name; });
  EXPECT_NE(found, advice.remedies.end()) << name;
  return *found;
}

inline std::uint64_t predicted(const Advice& advice, std::string_view name) {
  const Remedy& entry = remedy(advice, name);
  EXPECT_TRUE(entry.peak_allocated.has_value()) << name << ": " << entry.why;
  return entry.peak_allocated ? entry.peak_allocated->bytes : 0;
}

// Activations make the peak.
inline Shape wide_run() {
  Shape shape;
  shape.normed = 16 * kMiB;
  shape.wide = 32 * kMiB;
  return shape;
}

}  // namespace gpumemprof
