// What single frames of torch's own code mean.
#include "analysis/code/torch_code.h"

#include <gtest/gtest.h>

namespace gpumemprof {
namespace {

constexpr const char* kSite = "/venv/lib/python3.12/site-packages/";

FrameMeaning meaning(const std::string& file, std::string_view name) {
  return meaning_of_frame(kSite + file, name);
}

TEST(TorchCode, the_role_of_a_frame_follows_from_file_and_name) {
  const auto role = [](const std::string& file, std::string_view name) {
    return meaning(file, name).role;
  };
  EXPECT_EQ(role("torch/optim/adamw.py", "AdamW.step"), FrameRole::optimizer_step);
  EXPECT_EQ(role("torch/optim/adamw.py", "_init_group"), FrameRole::optimizer_other);
  EXPECT_EQ(role("torch/optim/lr_scheduler.py", "step"), FrameRole::plain);
  EXPECT_EQ(role("bitsandbytes/optim/adam.py", "step"), FrameRole::optimizer_step);
  EXPECT_EQ(role("torch/nn/modules/module.py", "Module.to"), FrameRole::make_parameters);
  EXPECT_EQ(role("torch/nn/modules/module.py", "_call_impl"), FrameRole::module_call);
  EXPECT_EQ(role("torch/_tensor.py", "Tensor.backward"), FrameRole::backward);
  EXPECT_EQ(role("torch/utils/checkpoint.py", "recompute_fn"), FrameRole::recompute);
  EXPECT_EQ(role("torch/distributed/fsdp/_flat_param.py", "_init_flat_param"),
            FrameRole::make_parameters);
  EXPECT_EQ(role("torch/distributed/fsdp/_state_dict_utils.py", "load_state_dict"),
            FrameRole::plain);
  EXPECT_EQ(role("transformers/modeling_utils.py", "from_pretrained"), FrameRole::make_parameters);
  EXPECT_EQ(role("torch/nn/parallel/distributed.py", "_ddp_init_helper"), FrameRole::make_buckets);
  EXPECT_EQ(role("torch/nn/parallel/distributed.py", "forward"), FrameRole::forward);
}

TEST(TorchCode, user_functions_mean_nothing_unless_torch_calls_them_by_that_name) {
  EXPECT_EQ(meaning_of_frame("/train/train.py", "train").role, FrameRole::plain);
  EXPECT_EQ(meaning_of_frame("/train/optim/mine.py", "step").role, FrameRole::plain);
  EXPECT_EQ(meaning_of_frame("/train/model.py", "Net.forward").role, FrameRole::forward);
  EXPECT_EQ(meaning_of_frame("/train/loss.py", "Scale.backward").role, FrameRole::named_backward);
}

TEST(TorchCode, native_functions_are_known_by_their_own_name_not_by_their_parameters) {
  const auto role = [](std::string_view name) {
    return meaning_of_frame("/train/mnist.cpp", name).role;
  };
  EXPECT_EQ(role("torch::optim::SGD::step(std::function<at::Tensor ()>)"),
            FrameRole::optimizer_step);
  EXPECT_EQ(role("torch::optim::LBFGS::step(std::function<at::Tensor ()>)::{lambda()#1}::"
                 "operator()() const"),
            FrameRole::optimizer_step);
  EXPECT_EQ(role("(anonymous namespace)::Lion::step(std::function<at::Tensor ()>)"),
            FrameRole::optimizer_step);
  EXPECT_EQ(role("torch::optim::Optimizer::zero_grad(bool)"), FrameRole::zero_grad);
  EXPECT_EQ(role("torch::optim::Adagrad::Adagrad(std::vector<at::Tensor>, "
                 "torch::optim::AdagradOptions)"),
            FrameRole::optimizer_other);

  EXPECT_EQ(role("void train<DataLoader>(unsigned long, Net&, c10::Device, DataLoader&, "
                 "torch::optim::Optimizer&, unsigned long)"),
            FrameRole::plain);
  EXPECT_EQ(role("train(Net&, torch::optim::Optimizer&)"), FrameRole::plain);
  EXPECT_EQ(role("Trainer::step(torch::optim::Optimizer&)"), FrameRole::plain);
  EXPECT_EQ(role("torch::optim::Adam made_for<Net>(Net&)"), FrameRole::plain);
  EXPECT_EQ(role("torch::optim::Optimizer& chosen<Net>(Net&)"), FrameRole::plain);
  EXPECT_EQ(role("torch::optim::LRScheduler::step()"), FrameRole::plain);
  EXPECT_EQ(role("torch::optim::ReduceLROnPlateauScheduler::step(float)"), FrameRole::plain);
}

TEST(TorchCode, operations_are_known_by_function_or_by_the_modules_file) {
  EXPECT_EQ(meaning("torch/nn/functional.py", "scaled_dot_product_attention").op,
            OpKind::attention);
  EXPECT_EQ(meaning("torch/nn/functional.py", "mse_loss").op, OpKind::loss);
  EXPECT_EQ(meaning("torch/nn/functional.py", "max_pool2d").op, OpKind::pool);
  EXPECT_EQ(meaning("torch/nn/functional.py", "relu").op, OpKind::follow);
  EXPECT_EQ(meaning("torch/nn/modules/conv.py", "forward").op, OpKind::matmul);
  EXPECT_EQ(meaning("torch/nn/modules/batchnorm.py", "forward").op, OpKind::follow);
  EXPECT_TRUE(meaning("torch/nn/modules/container.py", "forward").has_callers_op);
  EXPECT_TRUE(meaning("torch/_ops.py", "__call__").has_callers_op);
  EXPECT_EQ(meaning_of_frame("/train/model.py", "self_attention").op, OpKind::attention);
}

TEST(TorchCode, libraries_outside_the_pool_are_known_by_the_code_that_calls_them) {
  EXPECT_EQ(meaning("torch/distributed/distributed_c10d.py", "all_reduce").library,
            CudaLibrary::nccl);
  EXPECT_EQ(meaning("torch/nn/modules/conv.py", "_conv_forward").library, CudaLibrary::cudnn);
  EXPECT_EQ(meaning("torch/nn/functional.py", "conv2d").library, CudaLibrary::cudnn);
  EXPECT_EQ(meaning("torch/nn/modules/linear.py", "forward").library, CudaLibrary::none);
  EXPECT_EQ(meaning_of_frame("/train/model.py", "conv2d").library, CudaLibrary::none);
}

}  // namespace
}  // namespace gpumemprof
