// What a stack says about the part of a training step it belongs to.
#include "analysis/code/code_kind.h"

#include <gtest/gtest.h>

#include "analysis/run_builder.h"

namespace gpumemprof {
namespace {

TEST(CodeKinds, an_optimizer_that_calls_forward_through_a_closure_is_not_taken_for_it) {
  RunBuilder run;
  const StackId in_closure = run.stack(
      {"<module>@/train/train.py", "wrapper@torch/optim/optimizer.py", "closure@/train/train.py",
       "_call_impl@torch/nn/modules/module.py", "forward@/train/model.py"});
  const std::vector<CodeKind> kinds = code_kinds(run.store());
  EXPECT_EQ(kinds[in_closure.index], CodeKind::forward);
}

TEST(CodeKinds, what_the_closure_of_a_step_runs_is_the_programs_own) {
  RunBuilder run;
  const StackId loss =
      run.stack({"<module>@/train/train.py", "wrapper@torch/optim/optimizer.py",
                 "step@torch/optim/adam.py", "_start@/??", "decorate@torch/utils/_contextlib.py",
                 "closure@/venv/site-packages/lightning/loops/closure.py", "loss@/train/train.py"});
  const StackId helper =
      run.stack({"<module>@/train/train.py", "wrapper@torch/optim/optimizer.py",
                 "step@torch/optim/adam.py", "pow@torch/_tensor.py", "at::empty@/x.cpp"});
  // An optimizer of the program's own is wrapped too, by a scheduler as well.
  const StackId own = run.stack({"<module>@/train/train.py", "wrapper@torch/optim/lr_scheduler.py",
                                 "wrapper@torch/optim/optimizer.py", "step@/train/muon.py",
                                 "orthogonalize@/train/muon.py"});
  const std::vector<CodeKind> kinds = code_kinds(run.store());
  EXPECT_EQ(kinds[loss.index], CodeKind::plain);
  EXPECT_EQ(kinds[helper.index], CodeKind::optimizer_step);
  EXPECT_EQ(kinds[own.index], CodeKind::optimizer_step);
}

TEST(CodeKinds, native_frames_between_pythons_do_not_mislead) {
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

TEST(CodeKinds, qualified_names_are_read_as_plain_ones) {
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

}  // namespace
}  // namespace gpumemprof
