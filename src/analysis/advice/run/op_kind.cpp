#include "analysis/advice/run/op_kind.h"

#include <string_view>

namespace gpumemprof {
namespace {

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
    const FrameMeaning meaning = meaning_of_frame(store.text(frame.file), store.text(frame.name));
    const StackId caller = stacks.caller(stack);
    kinds.push_back(meaning.has_callers_op && !caller.is_none() ? kinds[caller.index] : meaning.op);
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
