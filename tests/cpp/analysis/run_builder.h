// RunBuilder: a handwritten training run, event by event, with the stacks PyTorch would record.
// Every allocation has a segment of its own; a freed one serves the next request of its size only
// after reuse_freed().
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/sources/sources.h"
#include "replay/replay.h"
#include "store/store.h"

namespace gpumemprof {

class RunBuilder {
 public:
  // Outermost frame first, "name@file". Torch's files are those of an installed package.
  StackId stack(const std::vector<std::string_view>& frames);

  // The usual stacks.
  StackId user() { return stack({"<module>@/train/train.py"}); }
  StackId model_to() {
    return stack({"<module>@/train/train.py", "to@torch/nn/modules/module.py"});
  }
  StackId forward() {
    return stack({"<module>@/train/train.py", "_wrapped_call_impl@torch/nn/modules/module.py",
                  "forward@/train/model.py"});
  }
  StackId recompute() {
    return stack({"unpack_hook@torch/utils/checkpoint.py", "forward@/train/model.py"});
  }
  StackId optimizer() {
    return stack({"<module>@/train/train.py", "wrapper@torch/optim/optimizer.py",
                  "step@torch/optim/adam.py"});
  }
  StackId zero_grad() {
    return stack({"<module>@/train/train.py", "zero_grad@torch/optim/optimizer.py"});
  }
  static StackId autograd() { return {}; }  // its threads have no Python stack

  // Returns a number for the allocation, used to free it and to look it up.
  std::size_t alloc(std::uint64_t size_bytes, StackId stack);
  void free(std::size_t allocation, StackId stack);
  void oom(std::uint64_t size_bytes, StackId stack);
  // The first request from this event on fails, and ends the program.
  void fail_at(std::size_t event) { fails_at_ = event; }
  [[nodiscard]] bool is_over() const { return is_over_; }
  void reuse_freed() { reuses_ = true; }
  void on_cpu() { device_type_ = "cpu"; }
  // Drops all events so far: the history begins here.
  void forget();
  // A module with this path; returns its number.
  std::uint32_t module(std::string_view path, std::string_view class_name);
  // Events from here on belong to this module; kNoModule: to none.
  void in_module(std::uint32_t number) { module_ = number; }
  // As a program does that names what is live now.
  void label(std::size_t allocation, LabelKind kind, std::string_view name);
  void annotate(std::string_view name, Annotation::Stage stage);

  // Replays and labels what was built.
  void finish();

  [[nodiscard]] MemorySource source(std::size_t allocation) const;
  [[nodiscard]] const Store& store() const { return store_; }
  [[nodiscard]] const DeviceRecord& record() const { return *store_.devices()[0]; }
  [[nodiscard]] const std::vector<PhaseSpan>& phases() const { return phases_; }
  [[nodiscard]] const DeviceReplay& replay() const { return replay_; }
  [[nodiscard]] DeviceSources sources(const SourcesOptions& options = {}) const;
  [[nodiscard]] std::uint32_t events() const { return static_cast<std::uint32_t>(events_); }

 private:
  void add(Action action, std::uint64_t address, std::uint64_t size_bytes, StackId stack);

  struct Block {
    std::uint64_t address = 0;
    std::uint64_t size_bytes = 0;
    StackId stack;
    bool is_live = true;
  };

  Store store_;
  EventColumns columns_;
  std::vector<Block> blocks_;
  std::string device_type_ = "cuda";
  bool reuses_ = false;
  std::multimap<std::uint64_t, std::uint64_t> free_;  // addresses by size
  std::size_t events_ = 0;
  std::size_t fails_at_ = static_cast<std::size_t>(-1);
  bool is_over_ = false;
  std::uint32_t modules_ = 0;
  std::uint32_t module_ = kNoModule;
  std::uint64_t next_address_ = 0x7f0000000000;
  DeviceReplay replay_;
  std::vector<PhaseSpan> phases_;
};

}  // namespace gpumemprof
