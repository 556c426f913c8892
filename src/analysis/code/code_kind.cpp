#include "analysis/code/code_kind.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "analysis/code/user_frame.h"

namespace gpumemprof {
namespace {

enum class FrameKind : std::uint8_t {
  plain,
  root,  // where the stack of a Python thread begins
  constructor,
  make_parameters,
  make_buckets,
  workspace,
  communicate,
  load_data,
  forward,
  module_call,  // torch's own: certainly a forward, whatever else has that name
  backward,
  named_backward,  // named so, but not torch's own: a custom function's, or a wrapper
  recompute,
  optimizer_step,
  optimizer_other,
  zero_grad,
};

// `part` is a path such as "torch/optim/": it may be anywhere in the file's path, after a
// separator.
bool lies_in(std::string_view file, std::string_view part) {
  for (std::size_t at = file.find(part); at != std::string_view::npos;
       at = file.find(part, at + 1)) {
    if (at == 0 || file[at - 1] == '/' || file[at - 1] == '\\') return true;
  }
  return false;
}

template <std::size_t kCount>
bool is_one_of(std::string_view name, const std::array<std::string_view, kCount>& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool is_root(std::string_view name) {
  constexpr std::array<std::string_view, 4> kRoots = {"<module>", "_bootstrap", "_run_code",
                                                      "_run_module_as_main"};
  return is_one_of(name, kRoots);
}

bool is_optimizer_file(std::string_view file) {
  if (lies_in(file, "torch/optim/")) {
    return !file.ends_with("lr_scheduler.py") && !file.ends_with("swa_utils.py");
  }
  return is_library_file(file) && (lies_in(file, "optim/") || lies_in(file, "optimizers/")) &&
         !lies_in(file, "torch/distributed/");
}

// Native frames, if a snapshot was recorded with them.
bool is_native_backward(std::string_view name) {
  return name.find("torch::autograd::Engine::") != std::string_view::npos ||
         name.find("torch::autograd::python::PythonEngine::") != std::string_view::npos;
}

bool is_native_workspace(std::string_view name) {
  return name.find("setWorkspaceForHandle") != std::string_view::npos ||
         name.find("CUDABlasLtWorkspace") != std::string_view::npos ||
         name.find("::Workspace::Workspace(") != std::string_view::npos;
}

bool makes_parameters(std::string_view file, std::string_view name) {
  constexpr std::array<std::string_view, 8> kOfModules = {
      "_apply", "convert", "to", "cuda", "to_empty", "__init__", "reset_parameters", "half"};
  constexpr std::array<std::string_view, 5> kLoaders = {
      "from_pretrained", "load_state_dict", "_load_from_state_dict", "_load_state_dict_into_model",
      "_load_state_dict_into_meta_model"};
  if (lies_in(file, "torch/nn/modules/")) {
    return is_one_of(name, kOfModules) || is_one_of(name, kLoaders) ||
           name == "flatten_parameters" || name == "_flatten_parameters" ||
           name == "initialize_parameters";
  }
  if (file.ends_with("torch/nn/parameter.py") || file.ends_with("torch/nn/init.py")) return true;
  if (lies_in(file, "torch/distributed/fsdp/") || lies_in(file, "torch/distributed/_composable/"))
    return name == "__init__" || name.starts_with("_init_") || name == "fully_shard";
  if (file.ends_with("transformers/core_model_loading.py") ||
      file.ends_with("accelerate/utils/modeling.py"))
    return true;
  return is_one_of(name, kLoaders);
}

bool is_backward(std::string_view file, std::string_view name) {
  if (name == "backward" && lies_in(file, "torch/")) return true;
  if (file.ends_with("torch/autograd/__init__.py")) return name == "grad" || name == "_make_grads";
  return name == "_engine_run_backward";
}

bool is_module_call_name(std::string_view file, std::string_view name) {
  if (file.ends_with("torch/nn/modules/module.py"))
    return name == "_call_impl" || name == "_wrapped_call_impl" || name == "_slow_forward";
  return file.ends_with("torch/nn/functional.py");
}

// Our own recordings have the qualified name, "Linear.forward"; a snapshot only has "forward".
std::string_view plain_name(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? name : name.substr(dot + 1);
}

FrameKind frame_kind(std::string_view file, std::string_view full_name) {
  if (is_native_backward(full_name)) return FrameKind::backward;
  if (is_native_workspace(full_name)) return FrameKind::workspace;
  const std::string_view name = plain_name(full_name);
  if (is_root(name)) return FrameKind::root;
  if (is_optimizer_file(file)) {
    if (name == "zero_grad") return FrameKind::zero_grad;
    // Every optimizer's step() is wrapped by its base class, no matter who wrote it.
    const bool is_step = name == "step" || name == "profile_hook_step" || name == "wrapper";
    return is_step ? FrameKind::optimizer_step : FrameKind::optimizer_other;
  }
  if (name == "zero_grad") return FrameKind::zero_grad;
  if (file.ends_with("torch/utils/checkpoint.py") &&
      (name == "unpack_hook" || name == "recompute_fn"))
    return FrameKind::recompute;
  if (is_backward(file, name)) return FrameKind::backward;
  const bool is_apply = name == "apply" && file.ends_with("torch/autograd/function.py");
  if (name == "backward" || is_apply) return FrameKind::named_backward;
  if (makes_parameters(file, name)) return FrameKind::make_parameters;
  if (file.ends_with("torch/distributed/distributed_c10d.py")) return FrameKind::communicate;
  if (file.ends_with("torch/nn/parallel/distributed.py")) {
    if (name.find("broadcast") != std::string_view::npos) return FrameKind::communicate;
    if (name != "forward") return FrameKind::make_buckets;
  }
  if (is_module_call_name(file, name)) return FrameKind::module_call;
  if (name == "forward") return FrameKind::forward;
  if (lies_in(file, "torch/utils/data/") || name == "send_to_device" ||
      name == "transfer_batch_to_device" || name == "_prepare_inputs")
    return FrameKind::load_data;
  return name == "__init__" ? FrameKind::constructor : FrameKind::plain;
}

// The kind of a stack from that of its caller and its innermost frame: the innermost call says
// most, because an optimizer may call forward and backward through a closure.
CodeKind called(CodeKind caller, FrameKind frame) {
  switch (frame) {
    case FrameKind::forward:
      // Data transforms may be modules too.
      if (caller == CodeKind::load_data) return caller;
      // Compiled backward code names the forward it was generated from.
      return is_in_backward(caller) ? caller : CodeKind::forward;
    case FrameKind::module_call:
      if (caller == CodeKind::load_data) return caller;
      return is_in_backward(caller) ? CodeKind::recompute : CodeKind::forward;
    case FrameKind::backward:
      // Native frames of autograd's thread may appear inside its Python ones.
      return caller == CodeKind::recompute ? caller : CodeKind::backward;
    case FrameKind::named_backward:
      // Called by autograd it computes gradients; called by the program it prepares for that, as
      // when it scales the loss.
      if (caller == CodeKind::none) return CodeKind::backward;
      return caller;
    case FrameKind::recompute:
      return CodeKind::recompute;
    case FrameKind::workspace:
      return CodeKind::workspace;
    case FrameKind::communicate:
      return CodeKind::communicate;
    case FrameKind::optimizer_step:
      return CodeKind::optimizer_step;
    case FrameKind::optimizer_other:
      return caller == CodeKind::optimizer_step ? caller : CodeKind::optimizer_setup;
    case FrameKind::zero_grad:
      return CodeKind::zero_grad;
    case FrameKind::make_parameters:
      return CodeKind::make_parameters;
    case FrameKind::make_buckets:
      return CodeKind::make_buckets;
    case FrameKind::load_data:
      return caller == CodeKind::plain || caller == CodeKind::constructor ? CodeKind::load_data
                                                                          : caller;
    case FrameKind::constructor:
      return caller == CodeKind::plain ? CodeKind::constructor : caller;
    case FrameKind::root:
      return CodeKind::plain;
    case FrameKind::plain:
      break;
  }
  return caller == CodeKind::none ? CodeKind::plain : caller;
}

std::vector<FrameKind> frame_kinds(const Store& store) {
  std::vector<FrameKind> kinds;
  kinds.reserve(store.frames().size());
  for (const Frame& frame : store.frames().span())
    kinds.push_back(frame_kind(store.text(frame.file), store.text(frame.name)));
  return kinds;
}

}  // namespace

std::vector<CodeKind> code_kinds(const Store& store) {
  const std::vector<FrameKind> frames = frame_kinds(store);
  const StackTrie& stacks = store.stacks();
  std::vector<CodeKind> kinds;
  kinds.reserve(stacks.size());
  bool has_roots = false;
  for (const FrameKind kind : frames) has_roots = has_roots || kind == FrameKind::root;
  // A caller is added before its callee.
  for (std::size_t index = 0; index < stacks.size(); ++index) {
    const StackId stack(index);
    const StackId caller = stacks.caller(stack);
    const FrameKind frame = frames[stacks.frame(stack).index];
    // Autograd's own threads call Python only for hooks, custom functions and recomputation: their
    // stacks have no root.
    const CodeKind outside =
        has_roots && frame != FrameKind::root ? CodeKind::backward : CodeKind::none;
    kinds.push_back(called(caller.is_none() ? outside : kinds[caller.index], frame));
  }
  return kinds;
}

bool is_module_forward(const Store& store, FrameId frame) {
  return plain_name(store.text(store.frame(frame).name)) == "forward";
}

bool is_module_call(const Store& store, FrameId frame) {
  return plain_name(store.text(store.frame(frame).name)) == "_wrapped_call_impl" &&
         store.text(store.frame(frame).file).ends_with("torch/nn/modules/module.py");
}

bool is_line_of_module(const Store& store, FrameId frame) {
  const std::string_view name = plain_name(store.text(store.frame(frame).name));
  return name != "forward" && name != "__call__" && name != "wrapper" &&
         !lies_in(store.text(store.frame(frame).file), "torch/");
}

bool is_torch_module(const Store& store, FrameId frame) {
  return !frame.is_none() && lies_in(store.text(store.frame(frame).file), "torch/nn/");
}

}  // namespace gpumemprof
