// What memory is used for: the categories of GPU memory in a run, training or inference.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gpumemprof {

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
};
inline constexpr std::size_t kMemorySourceCount = 9;

// In the order in which they are shown; unknown last.
inline constexpr std::array<MemorySource, kMemorySourceCount> kMemorySources = {
    MemorySource::parameters,  MemorySource::gradients,   MemorySource::optimizer_state,
    MemorySource::activations, MemorySource::kv_cache,    MemorySource::inputs,
    MemorySource::workspace,   MemorySource::temporaries, MemorySource::unknown};

constexpr std::string_view memory_source_name(MemorySource source) {
  constexpr std::array<std::string_view, kMemorySourceCount> kNames = {
      "unknown", "parameters", "gradients",   "optimizer_state", "activations",
      "inputs",  "workspace",  "temporaries", "kv_cache"};
  return kNames[static_cast<std::size_t>(source)];
}

}  // namespace gpumemprof
