#include "long_run/code.h"

namespace gpumemprof::long_run {

std::string library_file(std::string_view path) {
  return "/srv/gpt/.venv/lib/python3.12/site-packages/" + std::string(path);
}

StackId Code::call(StackId caller, std::string_view name, std::string_view file,
                   std::uint32_t line) const {
  return sink_->add_stack(
      caller, sink_->add_frame({sink_->add_string(name), sink_->add_string(file), line}));
}

StackId Code::torch(StackId caller, std::string_view name, std::string_view path,
                    std::uint32_t line) const {
  return call(caller, name, library_file(path), line);
}

StackId Code::module(StackId caller, std::string_view name, std::string_view file,
                     std::uint32_t line) const {
  constexpr std::string_view kModule = "torch/nn/modules/module.py";
  const StackId wrapped = torch(caller, "Module._wrapped_call_impl", kModule, 1776);
  return call(torch(wrapped, "Module._call_impl", kModule, 1787), name, file, line);
}

StackId Code::torch_module(StackId caller, std::string_view name, std::string_view path,
                           std::uint32_t line) const {
  return module(caller, name, library_file(path), line);
}

StackId Code::main_line(std::uint32_t line) const {
  return call(call({}, "<module>", kTrainFile, 158), "main", kTrainFile, line);
}

StackId Code::loading(StackId caller) const {
  constexpr std::string_view kLoader = "torch/utils/data/dataloader.py";
  const StackId next = torch(caller, "_BaseDataLoaderIter.__next__", kLoader, 741);
  const StackId data = torch(next, "_SingleProcessDataLoaderIter._next_data", kLoader, 801);
  const StackId fetch =
      torch(data, "_MapDatasetFetcher.fetch", "torch/utils/data/_utils/fetch.py", 57);
  return call(fetch, "to_card", kTrainFile, 41);
}

StackId Code::moving_parameters(std::size_t depth) const {
  constexpr std::string_view kModule = "torch/nn/modules/module.py";
  StackId stack = torch(main_line(97), "Module.to", kModule, 1384);
  for (std::size_t level = 0; level < depth; ++level)
    stack = torch(stack, "Module._apply", kModule, 933);
  stack = torch(stack, "Module._apply", kModule, 964);
  return torch(stack, "Module.to.<locals>.convert", kModule, 1370);
}

StackId Code::clipping(std::string_view name, std::uint32_t line) const {
  constexpr std::string_view kClip = "torch/nn/utils/clip_grad.py";
  const StackId wrapper = torch(main_line(127), "_no_grad.<locals>._no_grad_wrapper", kClip, 38);
  return torch(torch(wrapper, "clip_grad_norm_", kClip, 221), name, kClip, line);
}

StackId Code::optimizer_step(std::uint32_t line) const {
  constexpr std::string_view kOptimizer = "torch/optim/optimizer.py";
  const StackId wrapper =
      torch(main_line(129), "Optimizer.profile_hook_step.<locals>.wrapper", kOptimizer, 526);
  const StackId grad =
      torch(wrapper, "_use_grad_for_differentiable.<locals>._use_grad", kOptimizer, 81);
  return torch(grad, "Adam.step", "torch/optim/adam.py", line);
}

StackId Code::making_state(std::uint32_t line) const {
  return torch(optimizer_step(237), "Adam._init_group", "torch/optim/adam.py", line);
}

StackId Code::updating() const {
  constexpr std::string_view kAdam = "torch/optim/adam.py";
  const StackId maybe =
      torch(optimizer_step(248),
            "_disable_dynamo_if_unsupported.<locals>.wrapper.<locals>.maybe_fallback",
            "torch/optim/optimizer.py", 151);
  return torch(torch(maybe, "adam", kAdam, 970), "_multi_tensor_adam", kAdam, 838);
}

StackId Code::zeroing_gradients() const {
  const StackId inner =
      torch(main_line(130), "_disable_dynamo.<locals>.inner", "torch/_compile.py", 54);
  return torch(inner, "Optimizer.zero_grad", "torch/optim/optimizer.py", 1031);
}

StackId Code::beginning_backward() const {
  const StackId tensor = torch(main_line(123), "Tensor.backward", "torch/_tensor.py", 629);
  const StackId backward = torch(tensor, "backward", "torch/autograd/__init__.py", 354);
  return torch(backward, "_make_grads", "torch/autograd/__init__.py", 226);
}

StackId Code::emptying_cache() const {
  return torch(main_line(136), "empty_cache", "torch/cuda/memory.py", 232);
}

}  // namespace gpumemprof::long_run
