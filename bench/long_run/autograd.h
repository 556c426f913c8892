// Autograd: writes the scripts of a forward pass and of its backward, as torch's autograd would
// allocate and free: what an operation saves lives until its backward, everything else until nobody
// uses it any more.
#pragma once

#include <vector>

#include "long_run/script.h"

namespace gpumemprof::long_run {

using TensorId = Id<struct TensorTag>;

struct ParameterGradient {
  Slot slot = 0;
  Size size;
};

struct Operation {
  Place place;
  std::vector<TensorId> inputs;  // those that need a gradient
  Size result;
  bool saves_inputs = false;
  bool saves_result = false;
  std::vector<Size> saves;  // made for backward alone: masks, statistics
  std::vector<ParameterGradient> parameters = {};
  std::vector<Size> backward_scratch = {};
  bool passes_gradient = false;  // an addition: its inputs have the gradient of its result
};

class Autograd {
 public:
  // Without `records`, as under torch.no_grad(), nothing is saved.
  Autograd(Slots& slots, Script& forward, bool records)
      : slots_(&slots), forward_(&forward), records_(records) {}

  // The result belongs to the caller, who drops it.
  TensorId apply(const Operation& operation);
  void drop(TensorId tensor, StackId stack) { release(*forward_, tensor, stack); }
  // Everything that was saved is freed. `beginning` makes the gradient of the loss.
  void backward(Script& script, TensorId loss, StackId beginning);
  [[nodiscard]] Slot slot(TensorId tensor) const { return tensors_[tensor.index].slot; }

 private:
  struct Tensor {
    Slot slot = 0;
    Size size;
    int uses = 0;
    TensorId gradient;
  };
  struct Node {
    Operation operation;
    TensorId result;
    std::vector<TensorId> saved;
  };

  TensorId make(Script& script, Size size, const Place& place);
  void release(Script& script, TensorId tensor, StackId stack);
  void run_backward(Script& script, const Node& node);
  // Takes over the caller's use of `gradient`.
  void add_gradient(Script& script, TensorId tensor, TensorId gradient, const Place& place);

  Slots* slots_;
  Script* forward_;
  bool records_;
  std::vector<Tensor> tensors_;
  std::vector<Node> nodes_;
};

}  // namespace gpumemprof::long_run
