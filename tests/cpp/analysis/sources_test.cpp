// What allocations are for, in handwritten runs.
#include <gtest/gtest.h>

#include "analysis/code/code_kind.h"
#include "analysis/run_builder.h"
#include "base/bytes.h"

namespace gpumemprof {
namespace {

constexpr std::uint64_t kWeight = 3 * kMiB + 100;

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

void expect_everything_known(const Training& run) {
  run.expect(run.weights, MemorySource::parameters);
  run.expect(run.states, MemorySource::optimizer_state);
  run.expect(run.gradients, MemorySource::gradients);
  run.expect(run.batches, MemorySource::inputs);
  run.expect(run.activations, MemorySource::activations);
  run.expect(run.forward_scratch, MemorySource::temporaries);
  run.expect(run.backward_scratch, MemorySource::temporaries);
  run.expect(run.step_scratch, MemorySource::temporaries);
}

TEST(Sources, a_plain_training_run_is_known_throughout) {
  Training run;
  run.build();
  for (int step = 0; step < 3; ++step) run.run_step();
  run.finish();
  expect_everything_known(run);
}

TEST(Sources, one_step_is_enough) {
  Training run;
  run.build();
  run.run_step();
  run.finish();
  expect_everything_known(run);
}

TEST(Sources, frees_that_repeat_the_stack_of_their_request_mislead_nobody) {
  Training run;
  run.build();
  // As torch records with context="alloc": every free has the stack of its allocation.
  const auto step = [&] {
    const std::size_t batch = run.alloc(5 * kMiB, run.user());
    const std::size_t scratch = run.alloc(7 * kMiB, run.forward());
    const std::size_t kept = run.alloc(9 * kMiB, run.forward());
    run.free(scratch, run.forward());
    const std::size_t temporary = run.alloc(9 * kMiB, RunBuilder::autograd());
    const std::size_t first = run.alloc(kWeight, RunBuilder::autograd());
    const std::size_t second = run.alloc(kWeight, RunBuilder::autograd());
    run.free(kept, run.forward());
    run.free(temporary, RunBuilder::autograd());
    run.free(batch, run.user());
    const std::size_t state = run.alloc(11 * kMiB, run.optimizer());
    run.free(state, run.optimizer());
    run.free(first, RunBuilder::autograd());
    run.free(second, RunBuilder::autograd());
    return std::vector<std::size_t>{batch, scratch, kept, temporary, first, second, state};
  };
  const std::vector<std::size_t> first = step();
  const std::vector<std::size_t> second = step();
  run.finish();
  for (const auto& made : {first, second}) {
    EXPECT_EQ(run.source(made[0]), MemorySource::inputs);
    EXPECT_EQ(run.source(made[1]), MemorySource::temporaries);
    EXPECT_EQ(run.source(made[2]), MemorySource::activations);
    EXPECT_EQ(run.source(made[3]), MemorySource::temporaries);
    EXPECT_EQ(run.source(made[4]), MemorySource::gradients);
    EXPECT_EQ(run.source(made[5]), MemorySource::gradients);
    EXPECT_EQ(run.source(made[6]), MemorySource::temporaries);
  }
}

// As accelerate does it: the loss is scaled by a function that is also named backward.
TEST(Sources, what_a_wrapper_called_backward_makes_is_no_gradient) {
  Training run;
  run.build();
  std::vector<std::size_t> losses;
  for (int step = 0; step < 3; ++step) {
    run.run_forward();
    const StackId wrapper = run.stack({"<module>@/train/train.py", "backward@accelerate/acc.py"});
    losses.push_back(run.alloc(kWeight, wrapper));  // as large as a weight
    run.run_backward();
    run.free(losses.back(), run.user());
    run.run_optimizer();
    run.zero();
  }
  run.finish();
  expect_everything_known(run);
  run.expect(losses, MemorySource::activations);
}

TEST(Sources, gradients_that_zeroing_keeps_are_gradients) {
  Training run;
  run.build();
  run.run_forward();
  run.run_backward();
  for (int step = 0; step < 3; ++step) {
    run.run_optimizer();
    run.run_forward();
    // Accumulated in place: backward makes temporaries of their size, and frees them.
    const std::size_t added = run.alloc(kWeight, RunBuilder::autograd());
    run.free(run.activations[run.activations.size() - 1], RunBuilder::autograd());
    run.free(run.activations[run.activations.size() - 2], RunBuilder::autograd());
    run.free(added, RunBuilder::autograd());
    run.backward_scratch.push_back(added);
    run.free(run.batches.back(), run.user());
  }
  run.finish();
  expect_everything_known(run);
}

TEST(Sources, what_a_library_keeps_from_its_first_call_on_is_workspace) {
  Training run;
  run.build();
  run.run_forward();
  const std::size_t odd = run.alloc(17 * kMiB, run.forward());
  const std::size_t usual = run.alloc(32 * kMiB, run.forward());
  const std::size_t in_backward = run.alloc(32 * kMiB, RunBuilder::autograd());
  run.run_backward();
  run.run_optimizer();
  run.zero();
  for (int step = 0; step < 2; ++step) run.run_step();
  run.finish();
  // The forward that made them is over, so they are not in expect_everything_known's lists.
  EXPECT_EQ(run.source(odd), MemorySource::workspace);
  EXPECT_EQ(run.source(usual), MemorySource::workspace);
  EXPECT_EQ(run.source(in_backward), MemorySource::workspace);
}

TEST(Sources, outputs_kept_from_every_step_are_no_workspace) {
  // Four steps are too few to detect growth; what grows from step to step is not an activation.
  for (const int steps : {4, 6}) {
    Training run;
    run.build();
    std::vector<std::size_t> kept;
    for (int step = 0; step < steps; ++step) {
      run.run_forward();
      kept.push_back(run.alloc(2 * kMiB, run.forward()));
      run.run_backward();
      run.run_optimizer();
      run.zero();
    }
    run.finish();
    run.expect(kept, steps < 5 ? MemorySource::activations : MemorySource::unknown);
  }
}

TEST(Sources, recomputed_activations_are_activations_and_their_scratch_is_not) {
  Training run;
  run.build();
  run.run_forward();
  const std::size_t start = run.alloc(9 * kMiB, RunBuilder::autograd());
  const std::size_t scratch = run.alloc(4 * kMiB, run.recompute());
  const std::size_t again = run.alloc(8 * kMiB, run.recompute());
  run.free(scratch, run.recompute());
  const std::size_t last = run.alloc(8 * kMiB, run.recompute());
  run.free(start, RunBuilder::autograd());
  const std::size_t temporary = run.alloc(9 * kMiB, RunBuilder::autograd());
  run.free(last, RunBuilder::autograd());
  run.free(again, RunBuilder::autograd());
  run.free(temporary, RunBuilder::autograd());
  run.run_backward();
  run.run_optimizer();
  run.zero();
  run.finish();
  EXPECT_EQ(run.source(scratch), MemorySource::temporaries);
  EXPECT_EQ(run.source(again), MemorySource::activations);
  EXPECT_EQ(run.source(last), MemorySource::activations);
  EXPECT_EQ(run.source(temporary), MemorySource::temporaries);
}

TEST(Sources, a_forward_that_ran_out_of_memory_held_activations) {
  Training run;
  run.build();
  run.run_forward();
  const std::size_t library = run.alloc(32 * kMiB, run.forward());
  run.oom(64 * kMiB, run.forward());
  for (const std::size_t activation : run.activations) run.free(activation, run.user());
  run.free(run.batches.back(), run.user());
  run.finish();
  expect_everything_known(run);
  EXPECT_EQ(run.source(library), MemorySource::workspace);
}

TEST(Sources, weights_of_the_users_own_are_known_by_their_gradients) {
  RunBuilder run;
  const std::size_t weight = run.alloc(kWeight, run.user());
  const std::size_t data = run.alloc(6 * kMiB, run.user());
  std::vector<std::size_t> hidden;
  std::vector<std::size_t> gradients;
  for (int step = 0; step < 3; ++step) {
    hidden.push_back(run.alloc(9 * kMiB, run.user()));
    gradients.push_back(run.alloc(kWeight, RunBuilder::autograd()));
    run.free(hidden.back(), RunBuilder::autograd());
    run.free(gradients.back(), run.user());
  }
  run.finish();
  EXPECT_EQ(run.source(weight), MemorySource::parameters);
  EXPECT_EQ(run.source(data), MemorySource::inputs);
  for (const std::size_t block : hidden) EXPECT_EQ(run.source(block), MemorySource::activations);
  for (const std::size_t block : gradients) EXPECT_EQ(run.source(block), MemorySource::gradients);
}

// One step of a model with one weight.
void step_once(RunBuilder& run, std::uint64_t weight_bytes) {
  const std::size_t hidden = run.alloc(9 * kMiB, run.forward());
  const std::size_t gradient = run.alloc(weight_bytes, RunBuilder::autograd());
  run.free(hidden, RunBuilder::autograd());
  run.free(run.alloc(512, run.optimizer()), run.optimizer());
  run.free(gradient, run.zero_grad());
}

TEST(Sources, copies_that_take_the_place_of_weights_are_parameters) {
  RunBuilder run;
  const std::size_t weight = run.alloc(kWeight, run.model_to());
  step_once(run, kWeight);
  const std::size_t copy = run.alloc(kWeight, run.user());
  run.free(weight, run.user());
  const std::size_t kept = run.alloc(kWeight, run.user());
  for (int step = 0; step < 3; ++step) step_once(run, kWeight);
  run.finish();
  EXPECT_EQ(run.source(weight), MemorySource::parameters);
  EXPECT_EQ(run.source(copy), MemorySource::parameters);
  EXPECT_NE(run.source(kept), MemorySource::parameters);
}

TEST(Sources, weights_that_an_optimizer_keeps_state_for_are_parameters_and_their_gradients_too) {
  RunBuilder run;
  const std::size_t weight = run.alloc(kWeight, run.model_to());
  const std::size_t master = run.alloc(2 * kWeight, run.user());
  std::size_t state = 0;
  std::vector<std::size_t> gradients;
  for (int step = 0; step < 3; ++step) {
    const std::size_t hidden = run.alloc(9 * kMiB, run.forward());
    const std::size_t half = run.alloc(kWeight, RunBuilder::autograd());
    run.free(hidden, RunBuilder::autograd());
    gradients.push_back(run.alloc(2 * kWeight, run.user()));
    run.free(half, run.user());
    if (step == 0) state = run.alloc(2 * kWeight, run.optimizer());
    run.free(run.alloc(512, run.optimizer()), run.optimizer());
    run.free(gradients.back(), run.zero_grad());
  }
  run.finish();
  EXPECT_EQ(run.source(weight), MemorySource::parameters);
  EXPECT_EQ(run.source(master), MemorySource::parameters);
  EXPECT_EQ(run.source(state), MemorySource::optimizer_state);
  for (const std::size_t block : gradients) EXPECT_EQ(run.source(block), MemorySource::gradients);
}

TEST(Sources, what_one_backward_keeps_for_another_is_activations) {
  RunBuilder run;
  run.alloc(kWeight, run.model_to());
  std::vector<std::size_t> kept;
  for (int step = 0; step < 3; ++step) {
    const std::size_t hidden = run.alloc(9 * kMiB, run.forward());
    kept.push_back(run.alloc(3 * kMiB, RunBuilder::autograd()));
    const std::size_t penalty = run.alloc(1 * kMiB, run.user());
    const std::size_t gradient = run.alloc(kWeight, RunBuilder::autograd());
    run.free(kept.back(), RunBuilder::autograd());
    run.free(hidden, RunBuilder::autograd());
    run.free(penalty, run.user());
    run.free(run.alloc(512, run.optimizer()), run.optimizer());
    run.free(gradient, run.zero_grad());
  }
  run.finish();
  for (const std::size_t block : kept) EXPECT_EQ(run.source(block), MemorySource::activations);
}

TEST(Sources, scratch_of_a_collective_is_no_gradient_and_its_late_end_no_backward) {
  RunBuilder run;
  run.alloc(kWeight, run.model_to());
  const StackId collective = run.stack({"hook@torch/distributed/fsdp/_runtime_utils.py",
                                        "reduce_scatter@torch/distributed/distributed_c10d.py"});
  std::vector<std::size_t> scratch;
  for (int step = 0; step < 3; ++step) {
    const std::size_t hidden = run.alloc(9 * kMiB, run.forward());
    const std::size_t gradient = run.alloc(kWeight, RunBuilder::autograd());
    scratch.push_back(run.alloc(kWeight, collective));
    run.free(hidden, RunBuilder::autograd());
    run.free(run.alloc(512, run.optimizer()), run.optimizer());
    run.free(scratch.back(), RunBuilder::autograd());  // on a thread of its own
    run.free(gradient, run.zero_grad());
  }
  run.finish();
  for (const std::size_t block : scratch) EXPECT_EQ(run.source(block), MemorySource::workspace);
  std::size_t backwards = 0;
  for (const PhaseSpan& span : run.phases()) backwards += span.phase == Phase::backward ? 1 : 0;
  EXPECT_EQ(backwards, 3U);
}

TEST(Sources, what_a_library_or_a_copy_of_the_weights_keeps_is_not_taken_for_data) {
  Training run;
  run.build();
  const std::size_t copy = run.alloc(kWeight, run.user());
  const std::size_t data = run.alloc(6 * kMiB, run.user());
  const std::size_t of_library =
      run.alloc(13 * kMiB, run.stack({"<module>@/train/train.py", "setup@somelib/engine.py"}));
  const std::size_t of_constructor =
      run.alloc(15 * kMiB, run.stack({"<module>@/train/train.py", "__init__@/train/data.py"}));
  for (int step = 0; step < 2; ++step) run.run_step();
  run.finish();
  expect_everything_known(run);
  EXPECT_EQ(run.source(data), MemorySource::inputs);
  EXPECT_EQ(run.source(copy), MemorySource::unknown);
  EXPECT_EQ(run.source(of_library), MemorySource::unknown);
  EXPECT_EQ(run.source(of_constructor), MemorySource::unknown);
}

TEST(Sources, an_optimizer_that_calls_forward_through_a_closure_is_not_taken_for_it) {
  RunBuilder run;
  const StackId in_closure = run.stack(
      {"<module>@/train/train.py", "wrapper@torch/optim/optimizer.py", "closure@/train/train.py",
       "_call_impl@torch/nn/modules/module.py", "forward@/train/model.py"});
  const std::vector<CodeKind> kinds = code_kinds(run.store());
  EXPECT_EQ(kinds[in_closure.index], CodeKind::forward);
}

TEST(Sources, native_frames_between_pythons_do_not_mislead) {
  RunBuilder run;
  // As torch records by default: the innermost Python frame is among the native ones.
  const StackId step =
      run.stack({"<module>@/train/train.py", "wrapper@torch/optim/optimizer.py",
                 "step@torch/optim/adam.py", "_start@/??", "_PyEval_EvalFrameDefault@/??",
                 "_single_tensor_adam@torch/optim/adam.py", "at::empty@/x.cpp"});
  const StackId backward =
      run.stack({"clone@/??", "torch::autograd::Engine::thread_main@/??", "at::empty@/x.cpp"});
  const StackId cublas = run.stack({"clone@/??", "torch::autograd::Engine::thread_main@/??",
                                    "at::cuda::setWorkspaceForHandle(x)@/x.cpp"});
  // Compiled code names the lines it was compiled from.
  const StackId compiled =
      run.stack({"apply@torch/autograd/function.py", "backward@torch/_functorch/wrappers.py",
                 "forward@/train/model.py", "call@/tmp/torchinductor_user/x.py"});
  const std::vector<CodeKind> kinds = code_kinds(run.store());
  EXPECT_EQ(kinds[step.index], CodeKind::optimizer_step);
  EXPECT_EQ(kinds[backward.index], CodeKind::backward);
  EXPECT_EQ(kinds[cublas.index], CodeKind::workspace);
  EXPECT_EQ(kinds[compiled.index], CodeKind::backward);
}

TEST(Sources, qualified_names_are_read_as_plain_ones) {
  RunBuilder run;
  const StackId forward =
      run.stack({"<module>@/train/train.py", "Module._call_impl@torch/nn/modules/module.py",
                 "Block.forward@/train/model.py"});
  const StackId step = run.stack({"<module>@/train/train.py",
                                  "Optimizer.profile_hook_step.<locals>.wrapper@torch/optim/"
                                  "optimizer.py"});
  const std::vector<CodeKind> kinds = code_kinds(run.store());
  EXPECT_EQ(kinds[forward.index], CodeKind::forward);
  EXPECT_EQ(kinds[step.index], CodeKind::optimizer_step);
}

TEST(Sources, a_history_that_begins_late_is_completed_by_sizes) {
  Training run;
  run.build();
  run.run_step();
  run.forget();
  for (int step = 0; step < 2; ++step) run.run_step();
  run.finish();
  run.expect(run.weights, MemorySource::parameters);
  run.expect(run.states, MemorySource::optimizer_state);
}

TEST(Sources, what_lies_before_a_history_without_training_is_unknown) {
  RunBuilder run;
  const std::size_t before = run.alloc(kWeight, StackId());
  run.forget();
  const std::size_t batch = run.alloc(5 * kMiB, run.user());
  const std::size_t hidden = run.alloc(9 * kMiB, run.forward());
  run.free(hidden, run.forward());
  run.finish();
  EXPECT_EQ(run.source(before), MemorySource::unknown);
  EXPECT_EQ(run.source(batch), MemorySource::inputs);
  EXPECT_EQ(run.source(hidden), MemorySource::temporaries);
}

TEST(Sources, without_stacks_annotations_tell_gradients_state_and_parameters) {
  RunBuilder run;
  const StackId none;
  const std::size_t weight = run.alloc(kWeight, none);
  std::vector<std::size_t> hidden;
  std::vector<std::size_t> gradients;
  std::size_t state = 0;
  for (int step = 0; step < 2; ++step) {
    hidden.push_back(run.alloc(9 * kMiB, none));
    gradients.push_back(run.alloc(kWeight, none));
    run.free(hidden.back(), none);
    run.annotate("Optimizer.step#Adam.step", Annotation::Stage::start);
    if (step == 0) state = run.alloc(kWeight, none);
    run.annotate("Optimizer.step#Adam.step", Annotation::Stage::end);
    run.annotate("Optimizer.zero_grad#Adam.zero_grad", Annotation::Stage::start);
    run.free(gradients.back(), none);
    run.annotate("Optimizer.zero_grad#Adam.zero_grad", Annotation::Stage::end);
  }
  run.finish();
  EXPECT_EQ(run.source(weight), MemorySource::parameters);
  EXPECT_EQ(run.source(state), MemorySource::optimizer_state);
  for (const std::size_t block : gradients) EXPECT_EQ(run.source(block), MemorySource::gradients);
  for (const std::size_t block : hidden) EXPECT_EQ(run.source(block), MemorySource::unknown);
}

TEST(Sources, without_stacks_and_annotations_everything_is_unknown) {
  RunBuilder run;
  const std::size_t first = run.alloc(kWeight, StackId());
  const std::size_t second = run.alloc(kWeight, StackId());
  run.free(second, StackId());
  run.finish();
  EXPECT_EQ(run.source(first), MemorySource::unknown);
  EXPECT_EQ(run.source(second), MemorySource::unknown);
  EXPECT_FALSE(run.sources().has_stacks);
}

TEST(Sources, phases_and_steps_are_numbered_and_say_what_is_kept_for_backward) {
  Training run;
  run.build();
  for (int step = 0; step < 2; ++step) run.run_step();
  run.finish();
  const DeviceSources sources = run.sources();
  ASSERT_EQ(sources.steps.size(), 3U);  // including what came before the first step
  EXPECT_EQ(sources.steps[0].step, 0U);
  EXPECT_EQ(sources.steps[2].step, 2U);
  EXPECT_EQ(sources.steps[1].saved_for_backward_bytes, 18 * kMiB);
  EXPECT_EQ(sources.steps[2].saved_for_backward_bytes, 18 * kMiB);
  std::vector<Phase> phases;
  for (std::uint32_t row = 0; row < sources.steps[1].phase_count; ++row)
    phases.push_back(sources.phases[sources.steps[1].first_phase + row].phase);
  EXPECT_EQ(phases, (std::vector<Phase>{Phase::forward, Phase::backward, Phase::other,
                                        Phase::optimizer_step, Phase::other}));
  EXPECT_EQ(sources.steps[1].live_bytes, sources.steps[2].live_bytes);
}

TEST(Sources, modules_are_a_tree_of_the_lines_that_call_them) {
  RunBuilder run;
  const auto call = "_wrapped_call_impl@torch/nn/modules/module.py";
  const StackId outer = run.stack({"<module>@/train/train.py", call, "forward@/train/model.py"});
  const StackId inner =
      run.stack({"<module>@/train/train.py", call, "forward@/train/model.py",
                 "_blocks@/train/model.py", call, "forward@torch/nn/modules/linear.py"});
  run.alloc(4 * kMiB, outer);
  run.alloc(8 * kMiB, inner);
  run.alloc(16 * kMiB, run.user());  // made by no module
  run.finish();
  const std::vector<ModuleNode> modules = run.sources().modules;
  ASSERT_EQ(modules.size(), 4U);
  EXPECT_EQ(modules[0].parent, ModuleNode::kNoParent);
  EXPECT_EQ(modules[0].bytes, 12 * kMiB);
  for (std::size_t node = 1; node < modules.size(); ++node)
    EXPECT_EQ(modules[node].parent, node - 1);
  EXPECT_EQ(modules[1].bytes, 12 * kMiB);
  EXPECT_EQ(modules[2].bytes, 8 * kMiB);
  EXPECT_EQ(modules[3].blocks, 1U);
}

}  // namespace
}  // namespace gpumemprof
