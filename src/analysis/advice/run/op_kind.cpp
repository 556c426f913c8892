#include "analysis/advice/run/op_kind.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace gpumemprof {
namespace {

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string_view plain_name(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? name : name.substr(dot + 1);
}

// Functions of torch.nn.functional.
OpKind kind_of_function(std::string_view name) {
  if (is_one_of(name, {"softmax", "log_softmax", "softmin"})) return OpKind::softmax;
  if (is_one_of(name, {"layer_norm", "group_norm", "normalize", "cosine_similarity",
                       "local_response_norm", "softplus", "rms_norm"}))
    return OpKind::fp32;
  if (name == "cross_entropy" || name == "ctc_loss" || name == "kl_div" ||
      name.ends_with("_loss") || name.starts_with("binary_cross_entropy"))
    return OpKind::loss;
  if (name.starts_with("embedding")) return OpKind::embedding;
  if (is_one_of(name, {"linear", "bilinear", "_in_projection_packed", "_in_projection"}) ||
      name.starts_with("conv"))
    return OpKind::matmul;
  if (is_one_of(name, {"multi_head_attention_forward", "scaled_dot_product_attention"}))
    return OpKind::attention;
  if (name.find("pool") != std::string_view::npos) return OpKind::pool;
  return OpKind::follow;
}

// Files of torch.nn.modules, for layers that call no function of torch.nn.functional.
OpKind kind_of_module_file(std::string_view file) {
  const std::string_view name = file.substr(file.rfind('/') + 1);
  if (is_one_of(name, {"linear.py", "conv.py", "rnn.py"})) return OpKind::matmul;
  if (name == "normalization.py") return OpKind::fp32;
  if (name == "sparse.py") return OpKind::embedding;
  if (name == "loss.py") return OpKind::loss;
  if (name == "pooling.py") return OpKind::pool;
  return OpKind::follow;
}

OpKind kind_of_frame(std::string_view file, std::string_view full_name, bool& is_open) {
  const std::string_view name = plain_name(full_name);
  is_open = false;
  if (file.ends_with("torch/nn/functional.py")) return kind_of_function(name);
  if (file.find("torch/nn/modules/") != std::string_view::npos) {
    is_open = file.ends_with("/module.py") || file.ends_with("/container.py");
    return is_open ? OpKind::unknown : kind_of_module_file(file);
  }
  if (file.find("/torch/") != std::string_view::npos) {
    is_open = true;  // torch's own machinery: its caller says more
    return OpKind::unknown;
  }
  return name.find("attention") != std::string_view::npos ? OpKind::attention : OpKind::unknown;
}

bool is_called_from(const Store& store, StackId stack, std::string_view file) {
  for (StackId at = stack; !at.is_none(); at = store.stacks().caller(at)) {
    if (store.text(store.frame(store.stacks().frame(at)).file).ends_with(file)) return true;
  }
  return false;
}

}  // namespace

std::vector<OpKind> op_kinds(const Store& store) {
  const StackTrie& stacks = store.stacks();
  std::vector<OpKind> kinds;
  kinds.reserve(stacks.size());
  // A caller is added before what it calls.
  for (std::size_t index = 0; index < stacks.size(); ++index) {
    const StackId stack(index);
    const Frame& frame = store.frame(stacks.frame(stack));
    bool is_open = false;
    OpKind kind = kind_of_frame(store.text(frame.file), store.text(frame.name), is_open);
    const StackId caller = stacks.caller(stack);
    if (is_open && !caller.is_none()) kind = kinds[caller.index];
    kinds.push_back(kind);
  }
  return kinds;
}

bool is_recurrent(const Store& store, StackId stack) {
  return is_called_from(store, stack, "torch/nn/modules/rnn.py");
}

bool is_convolution(const Store& store, StackId stack) {
  return is_called_from(store, stack, "torch/nn/modules/conv.py");
}

bool is_of_transformers(const Store& store, StackId stack) {
  for (StackId at = stack; !at.is_none(); at = store.stacks().caller(at)) {
    const Frame& frame = store.frame(store.stacks().frame(at));
    if (store.text(frame.file).find("transformers/models/") != std::string_view::npos) return true;
  }
  return false;
}

bool is_upcasting_loss(const Store& store, StackId stack) {
  for (StackId at = stack; !at.is_none(); at = store.stacks().caller(at)) {
    const Frame& frame = store.frame(store.stacks().frame(at));
    if (store.text(frame.file).ends_with("transformers/loss/loss_utils.py") &&
        store.text(frame.name).find("CausalLM") != std::string_view::npos)
      return true;
  }
  return false;
}

}  // namespace gpumemprof
