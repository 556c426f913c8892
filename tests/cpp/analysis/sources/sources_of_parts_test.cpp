// What allocations are for where the history is a part of the run or has no stacks, and the figures
// of steps and modules.
#include "analysis/sources/training_run.h"

namespace gpumemprof {
namespace {

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

std::vector<Phase> phases_of_step(const DeviceSources& sources, std::size_t step) {
  std::vector<Phase> phases;
  for (std::uint32_t row = 0; row < sources.steps[step].phase_count; ++row)
    phases.push_back(sources.phases[sources.steps[step].first_phase + row].phase);
  return phases;
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
  EXPECT_EQ(phases_of_step(sources, 1),
            (std::vector<Phase>{Phase::forward, Phase::backward, Phase::other,
                                Phase::optimizer_step, Phase::other}));
  EXPECT_EQ(sources.steps[1].live_bytes, sources.steps[2].live_bytes);
}

TEST(Sources, forward_and_backward_in_the_closure_of_a_step_are_not_the_step) {
  Training run;
  run.build();
  const StackId loss = run.stack({"<module>@/train/train.py", "wrapper@torch/optim/optimizer.py",
                                  "step@torch/optim/adam.py", "closure@/train/train.py"});
  for (int step = 0; step < 3; ++step) {
    run.annotate("Optimizer.step#Adam.step", Annotation::Stage::start);
    run.run_forward();
    run.free(run.alloc(4, loss), loss);
    run.run_backward();
    run.run_optimizer();
    run.annotate("Optimizer.step#Adam.step", Annotation::Stage::end);
    run.zero();
    // Validation, from a line of its own.
    const StackId validate =
        run.stack({"<module>@/train/train.py", "validate@/train/train.py",
                   "_wrapped_call_impl@torch/nn/modules/module.py", "forward@/train/model.py"});
    run.free(run.alloc(9 * kMiB, validate), validate);
  }
  run.finish();
  expect_everything_known(run);
  const DeviceSources sources = run.sources();
  ASSERT_EQ(sources.steps.size(), 4U);
  for (std::size_t step = 1; step <= 3; ++step) {
    EXPECT_EQ(sources.steps[step].saved_for_backward_bytes, 18 * kMiB);
    std::vector<Phase> phases = phases_of_step(sources, step);
    std::erase(phases, Phase::other);
    EXPECT_EQ(phases, (std::vector<Phase>{Phase::forward, Phase::backward, Phase::optimizer_step,
                                          Phase::evaluation}));
  }
}

TEST(Sources, what_the_program_marks_as_evaluation_is_no_forward) {
  Training run;
  run.build();
  const auto evaluate = [&] {
    run.annotate("evaluation", Annotation::Stage::start);
    for (int batch = 0; batch < 2; ++batch) {
      const std::size_t input = run.alloc(5 * kMiB, run.user());
      run.free(run.alloc(9 * kMiB, run.forward()), run.forward());
      run.free(input, run.user());
    }
    run.annotate("evaluation", Annotation::Stage::end);
  };
  evaluate();  // before anything is trained, from the line that trains
  for (int step = 0; step < 2; ++step) run.run_step();
  evaluate();
  run.finish();
  std::vector<Phase> phases;
  for (const PhaseSpan& span : run.phases()) {
    if (span.phase != Phase::other && (phases.empty() || phases.back() != span.phase))
      phases.push_back(span.phase);
  }
  EXPECT_EQ(phases, (std::vector<Phase>{Phase::evaluation, Phase::forward, Phase::backward,
                                        Phase::optimizer_step, Phase::forward, Phase::backward,
                                        Phase::optimizer_step, Phase::evaluation}));
}

TEST(Sources, threads_that_help_are_no_backward_where_autograd_runs_in_its_caller) {
  RunBuilder run;
  run.on_cpu();
  run.alloc(kWeight, run.model_to());
  const StackId backward =
      run.stack({"<module>@/train/train.py", "backward@torch/autograd/__init__.py",
                 "_engine_run_backward@torch/autograd/graph.py"});
  run.free(run.alloc(kWeight, StackId()), StackId());  // a thread of a collective
  for (int step = 0; step < 2; ++step) {
    const std::size_t hidden = run.alloc(9 * kMiB, run.forward());
    const std::size_t gradient = run.alloc(kWeight, backward);
    run.free(run.alloc(kWeight, StackId()), StackId());
    run.free(run.alloc(64, backward), backward);
    run.free(hidden, backward);
    run.free(run.alloc(512, run.optimizer()), run.optimizer());
    run.free(gradient, run.zero_grad());
  }
  run.finish();
  std::vector<Phase> phases;
  for (const PhaseSpan& span : run.phases()) {
    if (span.phase != Phase::other) phases.push_back(span.phase);
  }
  const std::vector<Phase> step = {Phase::forward, Phase::backward, Phase::optimizer_step};
  std::vector<Phase> expected = step;
  expected.insert(expected.end(), step.begin(), step.end());
  EXPECT_EQ(phases, expected);
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
