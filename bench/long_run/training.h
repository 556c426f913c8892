// Training: the program of the recording, train.py: it trains a GPT on batches of various lengths,
// evaluates it now and then, leaks a little, has two batches that are too long, and once asks for
// more memory than there is.
#pragma once

#include <cstdint>
#include <vector>

#include "long_run/code.h"
#include "long_run/hooks.h"
#include "long_run/memory.h"
#include "long_run/model.h"
#include "long_run/passes.h"
#include "long_run/random.h"

namespace gpumemprof::long_run {

inline constexpr std::uint64_t kLeakEverySteps = 10;
inline constexpr std::uint64_t kLeakBytes = std::uint64_t{64} << 10U;

struct TrainingOptions {
  std::uint64_t events = 0;  // about so many
  std::uint64_t seed = 1;
  std::uint64_t card_bytes = 0;
  bool has_labels = true;
};

// Steps count from 1, as in reports.
struct LongStep {
  std::uint64_t step = 0;
  Peak peak;
};

struct TrainingSummary {
  std::uint64_t steps = 0;
  std::uint64_t evaluations = 0;
  Peak peak;
  LongStep first;
  LongStep second;
  std::uint64_t oom_event = 0;
  std::uint64_t leaked_bytes = 0;
};

class Training {
 public:
  Training(Recorder& recorder, const TrainingOptions& options);

  [[nodiscard]] const Model& model() const { return model_; }
  [[nodiscard]] const Memory& memory() const { return memory_; }
  TrainingSummary run();

 private:
  [[nodiscard]] std::uint64_t planned_steps() const;
  void compile_optimizer();
  void move_model();
  void train_step(std::uint64_t step);
  void optimize(std::uint64_t step);
  void evaluate();
  void load_batch(std::uint64_t tokens, StackId caller);
  // At the start of a recording only: cuBLAS takes its workspaces.
  void take_workspace(const Place& place);
  void leak();
  void do_rarities(std::uint64_t step);
  [[nodiscard]] std::uint64_t next_tokens();

  Recorder* recorder_;
  TrainingOptions options_;
  Random random_;
  Model model_;
  Code code_;
  Slots slots_;
  NamedSlots named_;
  Memory memory_;
  Passes passes_;
  Script clip_;
  Script make_state_;
  Script update_;
  Script zero_gradients_;
  Hooks hooks_;
  Slot batches_[2];  // of two tensors each: the next one is loaded before the last one goes
  bool has_batch_ = false;
  std::uint64_t batch_ = 0;
  TrainingSummary summary_;
};

}  // namespace gpumemprof::long_run
