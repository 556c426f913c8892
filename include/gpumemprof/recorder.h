// Records the memory of this process while it runs, for libtorch programs without Python.
//
//   gpumemprof::Recorder recorder("run.gmp");
//   if (!recorder.ok()) std::cerr << recorder.error().sentence << '\n';  // the program runs on
//   for (…) { gpumemprof::step(); … }
//
// torch.h, beside it, labels the parameters of torch::nn::Module and the state of optimizers.
#pragma once

#include <string>
#include <vector>

#include "gpumemprof/result.h"

namespace gpumemprof {

enum class Memory : std::int32_t {
  any = GPUMEMPROF_MEMORY_ANY,  // of CUDA devices where libtorch sees one, else of CPU tensors
  cpu = GPUMEMPROF_MEMORY_CPU,
  cuda = GPUMEMPROF_MEMORY_CUDA,
};

struct RecordOptions {
  bool overwrites = false;        // replace an existing file
  std::string command;            // stored in the file; empty: the command line of this process
  std::string torch_version;      // stored in the file; empty: not known
  bool stacks = true;             // the C++ call stack of each event
  std::uint32_t stack_depth = 0;  // how many of its frames, at most 256; 0: 128
  Memory memory = Memory::any;    // which memory is recorded
};

struct RecordSummary {
  std::uint64_t events = 0;
  std::uint64_t lost_events = 0;
  std::uint64_t size_bytes = 0;
  std::uint64_t peak_requested_bytes = 0;
};

// Records from its creation to its end. One that could not start records nothing and says why.
class Recorder {
 public:
  explicit Recorder(const std::string& path, const RecordOptions& options = {}) {
    const gpumemprof_record_options raw = {
        static_cast<std::uint8_t>(options.overwrites ? 1 : 0),
        options.command.empty() ? nullptr : options.command.c_str(),
        options.torch_version.empty() ? nullptr : options.torch_version.c_str(),
        static_cast<std::uint8_t>(options.stacks ? 0 : 1),
        options.stack_depth,
        static_cast<std::int32_t>(options.memory)};
    gpumemprof_error* error = nullptr;
    handle_ = gpumemprof_record(path.c_str(), &raw, sizeof(raw), &error);
    if (handle_ == nullptr) error_ = detail::taken(error);
  }
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;
  ~Recorder() { static_cast<void>(stop()); }

  bool ok() const { return error_.sentence.empty(); }
  const Error& error() const { return error_; }  // why it could not start

  // Closes the file; everything that happened before is in it.
  Result<RecordSummary> stop() {
    if (handle_ == nullptr) return ok() ? Result<RecordSummary>(RecordSummary()) : error_;
    gpumemprof_record_summary raw{};
    gpumemprof_error* error = nullptr;
    const int done = gpumemprof_record_stop(handle_, &raw, sizeof(raw), &error);
    handle_ = nullptr;
    if (done == 0) return detail::taken(error);
    return RecordSummary{raw.events, raw.lost_events, raw.size_bytes, raw.peak_requested_bytes};
  }

 private:
  gpumemprof_recorder* handle_ = nullptr;
  Error error_;
};

// A training step begins, and the one before ends.
inline void step() { gpumemprof_record_step(); }

// Tags what the calling thread allocates while it exists.
class Tag {
 public:
  explicit Tag(const std::string& name) : before_(gpumemprof_record_tag(name.c_str())) {}
  Tag(const Tag&) = delete;
  Tag& operator=(const Tag&) = delete;
  ~Tag() { gpumemprof_record_restore_tag(before_); }

 private:
  std::uint32_t before_;
};
[[nodiscard]] inline Tag tag(const std::string& name) { return Tag(name); }

// Around the step of an optimizer, whose number counts from 0.
class OptimizerStep {
 public:
  explicit OptimizerStep(std::uint32_t optimizer = 0) : optimizer_(optimizer) {
    gpumemprof_record_optimizer(optimizer_, 1);
  }
  OptimizerStep(const OptimizerStep&) = delete;
  OptimizerStep& operator=(const OptimizerStep&) = delete;
  ~OptimizerStep() { gpumemprof_record_optimizer(optimizer_, 0); }

 private:
  std::uint32_t optimizer_;
};

}  // namespace gpumemprof
