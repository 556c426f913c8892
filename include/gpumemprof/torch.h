// What libtorch's modules and optimizers own, told to the recorder: parameters, buffers, gradients
// and optimizer state. Needs libtorch's headers; nothing else of gpumemprof does.
//
//   gpumemprof::Recorder recorder("run.gmp", gpumemprof::torch_options());
//   gpumemprof::TorchLabels labels;
//   labels.add(*model);
//   labels.add(optimizer);
//   for (…) {
//     gpumemprof::step();
//     optimizer.zero_grad();
//     …  loss.backward();
//     { gpumemprof::OptimizerStep marked; optimizer.step(); }
//     labels.apply();                             // gradients and optimizer state exist now
//   }
#pragma once

#include <torch/torch.h>
#include <torch/version.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <string>
#include <typeinfo>
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
    forget(kept_);
    forget(gradients_);
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

  // Everything that exists now gets its name. Costs next to nothing while nothing is recorded, and
  // little where nothing has moved since the last time.
  void apply() {
    const std::uint64_t recording = gpumemprof_newest_recording();
    if (recording == 0) return;
    const bool is_known = recording == recording_;
    recording_ = recording;
    fetch_early();
    update(kept_, is_known, [this](const auto& visit) { for_each_kept(visit); });
    update(gradients_, is_known, [this](const auto& visit) { for_each_gradient(visit); });
  }

 private:
  struct Named {
    std::string name;
    torch::Tensor tensor;
  };

  struct Place {
    std::uint64_t address = 0;  // 0: it has no memory that is recorded
    std::int32_t device = -1;
    bool operator==(const Place& other) const {
      return address == other.address && device == other.device;
    }
  };

  // Labels that move together: gradients at each step, the rest hardly ever.
  struct Group {
    std::vector<Place> now;
    std::vector<Place> last;  // the places that the set was defined with
    std::uint32_t set = GPUMEMPROF_NONE;
  };

  // `visit` gets a kind, a tensor that may be undefined, a name and what is appended to it.
  template <typename Visit>
  void for_each_kept(const Visit& visit) {
    for (const Named& named : parameters_) {
      visit(GPUMEMPROF_LABEL_PARAMETER, named.tensor, named.name, "");
      for (const torch::optim::Optimizer* optimizer : optimizers_)
        for_each_state(*optimizer, named, visit);
    }
    for (const Named& named : buffers_)
      visit(GPUMEMPROF_LABEL_BUFFER, named.tensor, named.name, "");
  }

  // Not by Tensor::grad(), which also checks whether to warn.
  template <typename Visit>
  void for_each_gradient(const Visit& visit) {
    for (const Named& named : parameters_) {
      if (!named.tensor.defined()) continue;
      const c10::TensorImpl& parameter = *named.tensor.unsafeGetTensorImpl();
      if (parameter.autograd_meta() != nullptr) reading(*parameter.autograd_meta());
      visit(GPUMEMPROF_LABEL_GRADIENT, parameter.grad(), named.name, ".grad");
    }
  }

  Place place_of(const torch::Tensor& tensor) {
    if (!tensor.defined()) return {};
    const c10::TensorImpl& implementation = reading(*tensor.unsafeGetTensorImpl());
    const c10::Storage& storage = implementation.unsafe_storage();
    if (!storage) return {};
    const c10::StorageImpl& memory = reading(*storage.unsafeGetStorageImpl());
    const c10::Device device = memory.device();
    if (!device.is_cpu() && !device.is_cuda()) return {};
    const auto address = reinterpret_cast<std::uint64_t>(memory.data());
    return {address, device.is_cuda() ? std::int32_t{device.index()} : -1};
  }

  // Training has pushed what apply() reads out of the caches. Following its pointers, the processor
  // would wait for one cache line after the other; asked for all of them first, it fetches many at
  // once. A prefetch reads nothing, so an address whose object is gone does no harm.
  void fetch_early() {
    for (const void* place : read_last_) __builtin_prefetch(place);
    read_last_.clear();
  }
  template <typename T>
  const T& reading(const T& object) {
    read_last_.push_back(&object);
    return object;
  }

  // The state that libtorch's own optimizers keep for a parameter.
  template <typename Visit>
  void for_each_state(const torch::optim::Optimizer& optimizer, const Named& named,
                      const Visit& visit) {
    // Reading does not change it, but libtorch has no const access before 2.0.
    const auto& states = const_cast<torch::optim::Optimizer&>(optimizer).state();
    const auto entry = states.find(named.tensor.unsafeGetTensorImpl());
    if (entry == states.end() || entry->second == nullptr) return;
    const auto add = [&](const torch::Tensor& tensor, const char* name) {
      visit(GPUMEMPROF_LABEL_OPTIMIZER_STATE, tensor, named.name, name);
    };
    reading(*entry);
    torch::optim::OptimizerParamState& state = *entry->second;
    reading(state);
    if (auto* adam = as<torch::optim::AdamParamState>(state)) {
      add(adam->exp_avg(), " exp_avg");
      add(adam->exp_avg_sq(), " exp_avg_sq");
      add(adam->max_exp_avg_sq(), " max_exp_avg_sq");
    } else if (auto* adamw = as<torch::optim::AdamWParamState>(state)) {
      add(adamw->exp_avg(), " exp_avg");
      add(adamw->exp_avg_sq(), " exp_avg_sq");
      add(adamw->max_exp_avg_sq(), " max_exp_avg_sq");
    } else if (auto* sgd = as<torch::optim::SGDParamState>(state)) {
      add(sgd->momentum_buffer(), " momentum_buffer");
    } else if (auto* rmsprop = as<torch::optim::RMSpropParamState>(state)) {
      add(rmsprop->square_avg(), " square_avg");
      add(rmsprop->momentum_buffer(), " momentum_buffer");
      add(rmsprop->grad_avg(), " grad_avg");
    } else if (auto* adagrad = as<torch::optim::AdagradParamState>(state)) {
      add(adagrad->sum(), " sum");
    }
  }

  // Cheaper than a dynamic_cast that fails; libtorch derives nothing from these.
  template <typename State>
  static State* as(torch::optim::OptimizerParamState& state) {
    return typeid(state) == typeid(State) ? static_cast<State*>(&state) : nullptr;
  }

  template <typename ForEach>
  void update(Group& group, bool is_known, const ForEach& for_each) {
    group.now.clear();
    for_each([&](std::int32_t, const torch::Tensor& tensor, const std::string&, const char*) {
      group.now.push_back(place_of(tensor));
    });
    if (!is_known || !are_alike(group.now, group.last)) {
      define(group, for_each);
    } else if (group.now != group.last) {
      move(group);
    }
    group.last.swap(group.now);
    if (group.set != GPUMEMPROF_NONE) gpumemprof_apply_labels(group.set);
  }

  // Whether one set of labels serves both: the same tensors have memory, on the same devices.
  static bool are_alike(const std::vector<Place>& some, const std::vector<Place>& others) {
    return std::equal(some.begin(), some.end(), others.begin(), others.end(),
                      [](const Place& one, const Place& other) {
                        return one.device == other.device &&
                               (one.address == 0) == (other.address == 0);
                      });
  }

  static void forget(Group& group) {
    if (group.set != GPUMEMPROF_NONE) gpumemprof_forget_labels(group.set);
    group.set = GPUMEMPROF_NONE;
  }

  template <typename ForEach>
  void define(Group& group, const ForEach& for_each) {
    forget(group);
    std::vector<gpumemprof_label> labels;
    std::deque<std::string> names;  // which do not move
    for_each([&](std::int32_t kind, const torch::Tensor& tensor, const std::string& name,
                 const char* more) {
      const Place place = place_of(tensor);
      if (place.address == 0) return;
      labels.push_back(
          {kind, place.device, place.address, names.emplace_back(name + more).c_str()});
    });
    if (!labels.empty())
      group.set = gpumemprof_define_labels(labels.data(), labels.size(), nullptr);
  }

  static void move(Group& group) {
    if (group.set == GPUMEMPROF_NONE) return;
    std::vector<std::uint64_t> addresses;
    addresses.reserve(group.now.size());
    for (const Place& place : group.now)
      if (place.address != 0) addresses.push_back(place.address);
    group.set = gpumemprof_move_labels(group.set, addresses.data(), addresses.size());
  }

  std::vector<Named> parameters_;
  std::vector<Named> buffers_;
  std::vector<torch::optim::Optimizer*> optimizers_;
  Group kept_;
  Group gradients_;
  std::vector<const void*> read_last_;  // where the last apply() read
  std::uint64_t recording_ = 0;         // the newest one when the sets were defined
};

}  // namespace gpumemprof
