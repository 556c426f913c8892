#include "long_run/autograd.h"

#include <ranges>
#include <utility>

namespace gpumemprof::long_run {

TensorId Autograd::make(Script& script, Size size, const Place& place) {
  const TensorId id(tensors_.size());
  tensors_.push_back({slots_->take(), size, 1, {}});
  script.allocate(tensors_.back().slot, size, place);
  return id;
}

void Autograd::release(Script& script, TensorId id, StackId stack) {
  Tensor& tensor = tensors_[id.index];
  if (--tensor.uses == 0) script.free(tensor.slot, stack);
}

TensorId Autograd::apply(const Operation& operation) {
  const TensorId result = make(*forward_, operation.result, operation.place);
  if (!records_) return result;
  Node node{operation, result, {}};
  for (const Size size : operation.saves)
    node.saved.push_back(make(*forward_, size, operation.place));
  const auto save = [&](TensorId tensor) {
    ++tensors_[tensor.index].uses;
    node.saved.push_back(tensor);
  };
  if (operation.saves_inputs) {
    for (const TensorId input : operation.inputs) save(input);
  }
  if (operation.saves_result) save(result);
  nodes_.push_back(std::move(node));
  return result;
}

void Autograd::backward(Script& script, TensorId loss, StackId beginning) {
  Place place;
  place.stack = beginning;
  tensors_[loss.index].gradient = make(script, tensors_[loss.index].size, place);
  for (const Node& node : std::views::reverse(nodes_)) run_backward(script, node);
  nodes_.clear();
}

void Autograd::run_backward(Script& script, const Node& node) {
  const Operation& operation = node.operation;
  // On autograd's own thread: no Python, but the module and the line of the forward are known.
  Place place;
  place.forward_stack = operation.place.stack;
  place.module = operation.place.module;
  const TensorId gradient = tensors_[node.result.index].gradient;

  std::vector<TensorId> scratch;
  scratch.reserve(operation.backward_scratch.size());
  for (const Size size : operation.backward_scratch) scratch.push_back(make(script, size, place));
  for (const TensorId input : operation.inputs) {
    if (operation.passes_gradient) {
      ++tensors_[gradient.index].uses;
      add_gradient(script, input, gradient, place);
    } else {
      add_gradient(script, input, make(script, tensors_[input.index].size, place), place);
    }
  }
  for (const ParameterGradient& parameter : operation.parameters)
    script.allocate(parameter.slot, parameter.size, place);
  for (const TensorId tensor : scratch) release(script, tensor, {});
  for (const TensorId tensor : node.saved) release(script, tensor, {});
  release(script, gradient, {});
}

void Autograd::add_gradient(Script& script, TensorId id, TensorId gradient, const Place& place) {
  const TensorId before = tensors_[id.index].gradient;
  if (before.is_none()) {
    tensors_[id.index].gradient = gradient;
    return;
  }
  const TensorId sum = make(script, tensors_[id.index].size, place);
  release(script, before, {});
  release(script, gradient, {});
  tensors_[id.index].gradient = sum;
}

}  // namespace gpumemprof::long_run
