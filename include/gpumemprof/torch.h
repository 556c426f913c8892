// What libtorch's modules and optimizers own, told to the recorder: parameters, buffers, gradients
// and optimizer state. Needs libtorch's headers; nothing else of gpumemprof does.
//
//   gpumemprof::Recorder recorder("run.gmp", gpumemprof::torch_options());
//   gpumemprof::TorchLabels labels;
//   labels.add(*model);
//   labels.add(optimizer);
//   for (…) {
//     gpumemprof::step();
//     …  loss.backward();
//     labels.apply();                             // gradients exist now
//     { gpumemprof::OptimizerStep marked; optimizer.step(); }
//     labels.apply();                             // and so does the optimizer's state
//   }
#pragma once

#include <torch/torch.h>
#include <torch/version.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gpumemprof/recorder.h"

namespace gpumemprof {

// The options of a Recorder, with the version of libtorch that the program is compiled with.
inline RecordOptions torch_options() {
  RecordOptions options;
  options.torch_version = TORCH_VERSION;
  return options;
}

// Modules and optimizers must outlive it.
class TorchLabels {
 public:
  TorchLabels() = default;
  TorchLabels(const TorchLabels&) = delete;
  TorchLabels& operator=(const TorchLabels&) = delete;
  ~TorchLabels() {
    if (set_ != GPUMEMPROF_NONE) gpumemprof_forget_labels(set_);
  }

  // `prefix` precedes the names of a module beside others: "generator".
  void add(torch::nn::Module& module, const std::string& prefix = "") {
    const std::string dot = prefix.empty() ? "" : prefix + ".";
    for (const auto& item : module.named_parameters())
      parameters_.push_back({dot + item.key(), item.value()});
    for (const auto& item : module.named_buffers())
      buffers_.push_back({dot + item.key(), item.value()});
  }
  void add(torch::optim::Optimizer& optimizer) { optimizers_.push_back(&optimizer); }

  // Everything that exists now gets its name.
  void apply() {
    std::vector<Found> found = look();
    if (set_ == GPUMEMPROF_NONE || found != last_) define(std::move(found));
    if (set_ != GPUMEMPROF_NONE) gpumemprof_apply_labels(set_);
  }

 private:
  struct Named {
    std::string name;
    torch::Tensor tensor;
  };
  struct Found {
    std::int32_t kind;
    std::int32_t device;
    std::uint64_t address;
    std::string name;

    bool operator==(const Found& other) const {
      return kind == other.kind && device == other.device && address == other.address &&
             name == other.name;
    }
  };

  std::vector<Found> look() const {
    std::vector<Found> found;
    for (const Named& named : parameters_) {
      add_found(GPUMEMPROF_LABEL_PARAMETER, named.tensor, named.name, found);
      add_found(GPUMEMPROF_LABEL_GRADIENT, named.tensor.grad(), named.name + ".grad", found);
      for (const torch::optim::Optimizer* optimizer : optimizers_)
        add_state(*optimizer, named, found);
    }
    for (const Named& named : buffers_)
      add_found(GPUMEMPROF_LABEL_BUFFER, named.tensor, named.name, found);
    return found;
  }

  static void add_found(std::int32_t kind, const torch::Tensor& tensor, const std::string& name,
                        std::vector<Found>& found) {
    if (!tensor.defined() || !tensor.has_storage() || tensor.storage().data() == nullptr) return;
    const std::int32_t device = tensor.is_cpu() ? -1 : tensor.device().index();
    if (!tensor.is_cpu() && !tensor.is_cuda()) return;
    found.push_back({kind, device, reinterpret_cast<std::uint64_t>(tensor.storage().data()), name});
  }

  // The state that libtorch's own optimizers keep for a parameter.
  static void add_state(const torch::optim::Optimizer& optimizer, const Named& named,
                        std::vector<Found>& found) {
    // Reading does not change it, but libtorch has no const access before 2.0.
    const auto& states = const_cast<torch::optim::Optimizer&>(optimizer).state();
    const auto entry = states.find(named.tensor.unsafeGetTensorImpl());
    if (entry == states.end() || entry->second == nullptr) return;
    const auto add = [&](const torch::Tensor& tensor, const char* name) {
      add_found(GPUMEMPROF_LABEL_OPTIMIZER_STATE, tensor, named.name + " " + name, found);
    };
    torch::optim::OptimizerParamState* state = entry->second.get();
    if (auto* adam = dynamic_cast<torch::optim::AdamParamState*>(state)) {
      add(adam->exp_avg(), "exp_avg");
      add(adam->exp_avg_sq(), "exp_avg_sq");
      add(adam->max_exp_avg_sq(), "max_exp_avg_sq");
    } else if (auto* adamw = dynamic_cast<torch::optim::AdamWParamState*>(state)) {
      add(adamw->exp_avg(), "exp_avg");
      add(adamw->exp_avg_sq(), "exp_avg_sq");
      add(adamw->max_exp_avg_sq(), "max_exp_avg_sq");
    } else if (auto* sgd = dynamic_cast<torch::optim::SGDParamState*>(state)) {
      add(sgd->momentum_buffer(), "momentum_buffer");
    } else if (auto* rmsprop = dynamic_cast<torch::optim::RMSpropParamState*>(state)) {
      add(rmsprop->square_avg(), "square_avg");
      add(rmsprop->momentum_buffer(), "momentum_buffer");
      add(rmsprop->grad_avg(), "grad_avg");
    } else if (auto* adagrad = dynamic_cast<torch::optim::AdagradParamState*>(state)) {
      add(adagrad->sum(), "sum");
    }
  }

  void define(std::vector<Found> found) {
    if (set_ != GPUMEMPROF_NONE) gpumemprof_forget_labels(set_);
    last_ = std::move(found);
    std::vector<gpumemprof_label> labels;
    labels.reserve(last_.size());
    for (const Found& each : last_)
      labels.push_back({each.kind, each.device, each.address, each.name.c_str()});
    set_ = gpumemprof_define_labels(labels.data(), labels.size(), nullptr);
  }

  std::vector<Named> parameters_;
  std::vector<Named> buffers_;
  std::vector<torch::optim::Optimizer*> optimizers_;
  std::vector<Found> last_;
  std::uint32_t set_ = GPUMEMPROF_NONE;
};

}  // namespace gpumemprof
