// In place of <gpumemprof/torch.h>, for a program that never loads the library: what overhead is
// compared with.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <string>

#define GPUMEMPROF_USAGE 2

namespace gpumemprof {

enum class Memory : std::uint8_t { any, cpu };
struct RecordOptions {
  bool overwrites = false;
  bool stacks = true;
  Memory memory = Memory::any;
};
inline RecordOptions torch_options() { return {}; }

struct Error {
  std::string sentence = "this program was built without the recorder";
  int kind = GPUMEMPROF_USAGE;
};
struct Summary {
  std::uint64_t events = 0;
  std::uint64_t lost_events = 0;
};
struct NoSummary {
  explicit operator bool() const { return false; }
  const Summary* operator->() const { return &summary; }
  [[nodiscard]] const Error& error() const { return problem; }
  Summary summary;
  Error problem;
};
class Recorder {
 public:
  Recorder(const std::string& /*path*/, const RecordOptions& /*options*/) {}
  [[nodiscard]] static bool ok() { return false; }
  [[nodiscard]] static Error error() { return {}; }
  [[nodiscard]] static NoSummary stop() { return {}; }
};

struct TorchLabels {
  static void add(torch::nn::Module& /*module*/) {}
  static void add(torch::optim::Optimizer& /*optimizer*/) {}
  static void apply() {}
};
struct [[maybe_unused]] OptimizerStep {};
struct [[maybe_unused]] Tag {};
inline void step() {}
inline Tag tag(const char* /*name*/) { return {}; }

}  // namespace gpumemprof
