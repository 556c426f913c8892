// What memory is used for: the categories of GPU memory in a run, training or inference.
//
// A category is one row of kMemorySourceTable: its names, its place in lists, how sentences speak
// of it, and the code that is known to allocate it. Reports, JSON, tables, the search and the
// viewer's data read it from there.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gpumemprof {

// Values are stored in tables (Arrow): a new one goes to the end.
enum class MemorySource : std::uint8_t {
  unknown,          // nothing says what it is for; never hidden in another source
  parameters,       // weights, and the buffers of modules
  gradients,        // .grad of parameters
  optimizer_state,  // what the optimizer keeps from step to step: exp_avg, momentum_buffer, …
  activations,      // made by forward: kept for backward, or passed on from layer to layer
  inputs,           // batches moved to the device
  workspace,        // scratch memory that cuBLAS, cuDNN and others keep
  temporaries,      // allocated and freed within one phase
  kv_cache,         // inference: keys and values that later calls read again
  communication,  // torch.distributed: gradient buckets, gathered parameters, collectives' outputs
};

// How sure the inference is of a source that no label states.
enum class SourceEvidence : std::uint8_t {
  strong,  // it stands, whatever code allocated the memory
  weak,    // it yields to a source that claims the allocating code
};

struct MemorySourceInfo {
  MemorySource source;
  std::string_view name;          // in JSON, tables, search and filters
  std::string_view display_name;  // in text
  std::string_view column;        // its column in the table of modules; empty: under "other"
  bool is_plural;                 // "parameters dominate", "workspace dominates"
  bool is_always_listed;          // in JSON and legends even if it holds nothing
  SourceEvidence evidence;
  // Claims memory whose innermost Python frame is in one of these files or folders ("torch/x/"), or
  // in one function of a file ("x.py:function").
  std::array<std::string_view, 10> allocating_code{};

  [[nodiscard]] constexpr bool is_listed(std::uint64_t bytes) const {
    return is_always_listed || bytes > 0;
  }
};

// In the order in which they are shown; unknown last.
inline constexpr std::array kMemorySourceTable = std::to_array<MemorySourceInfo>({
    {MemorySource::parameters, "parameters", "parameters", "params", true, true,
     SourceEvidence::strong},
    {MemorySource::gradients, "gradients", "gradients", "grads", true, true,
     SourceEvidence::strong},
    {MemorySource::optimizer_state, "optimizer_state", "optimizer state", "optim.", false, true,
     SourceEvidence::strong},
    {MemorySource::activations, "activations", "activations", "activ.", true, true,
     SourceEvidence::weak},
    {MemorySource::kv_cache, "kv_cache", "KV cache", "cache", false, true, SourceEvidence::strong},
    {MemorySource::communication,
     "communication",
     "communication",
     "comm.",
     false,
     false,
     SourceEvidence::strong,
     {"torch/nn/parallel/distributed.py", "torch/distributed/distributed_c10d.py",
      "torch/distributed/_functional_collectives.py", "torch/distributed/utils.py",
      "torch/distributed/fsdp/", "torch/distributed/_composable/", "torch/distributed/nn/",
      "torch/distributed/algorithms/", "deepspeed/runtime/zero/stage_1_and_2.py:setup_buckets",
      "deepspeed/runtime/zero/stage_1_and_2.py:reduce_gradients"}},
    {MemorySource::inputs, "inputs", "inputs", "", true, true, SourceEvidence::strong},
    {MemorySource::workspace, "workspace", "workspace", "", false, true, SourceEvidence::weak},
    {MemorySource::temporaries, "temporaries", "temporaries", "", true, true, SourceEvidence::weak},
    {MemorySource::unknown, "unknown", "unknown", "", false, true, SourceEvidence::weak},
});
inline constexpr std::size_t kMemorySourceCount = kMemorySourceTable.size();

inline constexpr std::array<MemorySource, kMemorySourceCount> kMemorySources = [] {
  std::array<MemorySource, kMemorySourceCount> sources{};
  std::ranges::transform(kMemorySourceTable, sources.begin(), &MemorySourceInfo::source);
  return sources;
}();

constexpr const MemorySourceInfo& memory_source_info(MemorySource source) {
  constexpr std::array<std::uint8_t, kMemorySourceCount> kRows = [] {
    std::array<std::uint8_t, kMemorySourceCount> rows{};
    rows.fill(kMemorySourceCount);
    // A value without a row, or past the last row, fails to compile here.
    for (std::uint8_t row = 0; row < kMemorySourceCount; ++row)
      rows.at(static_cast<std::size_t>(kMemorySourceTable[row].source)) = row;
    for (const std::uint8_t row : rows) static_cast<void>(kMemorySourceTable.at(row));
    return rows;
  }();
  return kMemorySourceTable[kRows[static_cast<std::size_t>(source)]];
}

constexpr std::string_view memory_source_name(MemorySource source) {
  return memory_source_info(source).name;
}

}  // namespace gpumemprof
