// What allocations are for, in handwritten runs with stacks.
#include "analysis/sources/training_run.h"

namespace gpumemprof {
namespace {

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

// As Lightning does when it is done, and as a program may between two epochs.
TEST(Sources, a_workspace_that_the_program_clears_is_workspace) {
  Training run;
  run.build();
  std::vector<std::size_t> workspaces;
  for (int epoch = 0; epoch < 4; ++epoch) {
    run.run_forward();
    const std::size_t in_forward = run.alloc(32 * kMiB, run.forward());
    const std::size_t in_backward = run.alloc(32 * kMiB, RunBuilder::autograd());
    run.run_backward();
    run.run_optimizer();
    run.zero();
    for (int step = 0; step < 2; ++step) run.run_step();
    run.free(in_forward, run.user());
    run.free(in_backward, run.user());
    workspaces.insert(workspaces.end(), {in_forward, in_backward});
  }
  run.finish();
  run.expect(workspaces, MemorySource::workspace);
  run.expect(run.gradients, MemorySource::gradients);
}

TEST(Sources, a_workspace_that_is_cleared_after_one_step_is_workspace) {
  Training run;
  run.build();
  run.run_forward();
  const std::size_t in_forward = run.alloc(32 * kMiB, run.forward());
  const std::size_t in_backward = run.alloc(32 * kMiB, RunBuilder::autograd());
  run.run_backward();
  run.run_optimizer();
  run.free(in_forward, run.user());
  run.free(in_backward, run.user());
  run.zero();
  run.finish();
  run.expect({in_forward, in_backward}, MemorySource::workspace);
}

TEST(Sources, on_a_cpu_nothing_is_workspace) {
  Training run;
  run.on_cpu();
  run.build();
  run.run_forward();
  const std::size_t kept = run.alloc(32 * kMiB, run.forward());
  const std::size_t odd = run.alloc(17 * kMiB, run.forward());
  run.run_backward();
  run.run_optimizer();
  run.zero();
  for (int step = 0; step < 2; ++step) run.run_step();
  run.finish();
  run.expect({kept, odd}, MemorySource::activations);
}

TEST(Sources, outputs_kept_from_every_step_are_no_workspace) {
  // Four steps are too few to detect growth.
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
    run.expect(kept, MemorySource::activations);
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
  for (const std::size_t block : scratch) EXPECT_EQ(run.source(block), MemorySource::communication);
  std::size_t backwards = 0;
  for (const PhaseSpan& span : run.phases()) backwards += span.phase == Phase::backward ? 1 : 0;
  EXPECT_EQ(backwards, 3U);
}

TEST(Sources, what_distributed_code_allocates_is_communication_and_what_it_calls_is_not) {
  Training run;
  run.build();
  const StackId init =
      run.stack({"<module>@/train/train.py", "__init__@torch/nn/parallel/distributed.py",
                 "_ddp_init_helper@torch/nn/parallel/distributed.py"});
  const std::size_t bucket = run.alloc(6 * kMiB, init);
  const StackId fsdp_forward =
      run.stack({"<module>@/train/train.py", "_call_impl@torch/nn/modules/module.py",
                 "forward@torch/distributed/fsdp/fully_sharded_data_parallel.py"});
  std::vector<std::size_t> gathered;
  std::vector<std::size_t> hidden;
  for (int step = 0; step < 2; ++step) {
    gathered.push_back(run.alloc(
        11 * kMiB, run.stack({"<module>@/train/train.py", "_call_impl@torch/nn/modules/module.py",
                              "forward@torch/distributed/fsdp/fully_sharded_data_parallel.py",
                              "_alloc_storage@torch/distributed/utils.py"})));
    hidden.push_back(
        run.alloc(13 * kMiB,
                  run.stack({"<module>@/train/train.py", "_call_impl@torch/nn/modules/module.py",
                             "forward@torch/distributed/fsdp/fully_sharded_data_parallel.py",
                             "_call_impl@torch/nn/modules/module.py", "forward@/train/model.py"})));
    run.run_step();
    run.free(hidden.back(), RunBuilder::autograd());
    run.free(gathered.back(), fsdp_forward);
  }
  run.finish();
  expect_everything_known(run);
  EXPECT_EQ(run.source(bucket), MemorySource::communication);
  run.expect(gathered, MemorySource::communication);
  for (const std::size_t block : hidden) EXPECT_NE(run.source(block), MemorySource::communication);
}

TEST(Sources, the_buckets_of_deepspeed_are_communication_and_its_other_memory_is_not) {
  Training run;
  run.build();
  const StackId setup =
      run.stack({"<module>@/train/train.py",
                 "DeepSpeedZeroOptimizer.setup_buckets@deepspeed/runtime/zero/stage_1_and_2.py"});
  const StackId other = run.stack(
      {"<module>@/train/train.py",
       "DeepSpeedZeroOptimizer.reset_cpu_buffers@deepspeed/runtime/zero/stage_1_and_2.py"});
  std::vector<std::size_t> buckets;
  std::vector<std::size_t> others;
  for (int step = 0; step < 2; ++step) {
    if (step == 0) {
      buckets.push_back(run.alloc(50 * kMiB, setup));
      others.push_back(run.alloc(51 * kMiB, other));
    }
    run.run_step();
  }
  run.finish();
  expect_everything_known(run);
  run.expect(buckets, MemorySource::communication);
  run.expect(others, MemorySource::unknown);
}

// A process group's thread may be late to free what it sent to build a bucket.
TEST(Sources, small_tensors_from_building_buckets_of_gradients_are_no_gradients) {
  Training run;
  run.build();
  const StackId build =
      run.stack({"<module>@/train/train.py", "_pre_forward@torch/nn/parallel/distributed.py"});
  const std::size_t bucket = run.alloc(2 * kWeight, build);
  const std::size_t until_step = run.alloc(4, build);
  const std::size_t until_later = run.alloc(4, build);
  for (int step = 0; step < 3; ++step) {
    run.run_forward();
    for (int layer = 0; layer < 2; ++layer)
      run.free(run.activations[run.activations.size() - 1 - static_cast<std::size_t>(layer)],
               RunBuilder::autograd());
    run.free(run.batches.back(), run.user());
    if (step == 0) run.free(until_step, RunBuilder::autograd());
    run.run_optimizer();
    run.label(bucket, LabelKind::gradient, "weight.grad and 1 more");
  }
  run.free(until_later, RunBuilder::autograd());
  const std::size_t new_bucket = run.alloc(2 * kWeight, build);
  run.finish();
  EXPECT_EQ(run.source(bucket), MemorySource::gradients);
  EXPECT_EQ(run.source(until_step), MemorySource::communication);
  EXPECT_EQ(run.source(until_later), MemorySource::communication);
  EXPECT_EQ(run.source(new_bucket), MemorySource::gradients);
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

}  // namespace
}  // namespace gpumemprof
