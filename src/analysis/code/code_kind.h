// What a call stack says about the memory allocated under it: which part of a training step the
// code belongs to. What single frames mean is in torch_code.cpp.
#pragma once

#include <cstdint>
#include <vector>

#include "store/store.h"

namespace gpumemprof {

enum class CodeKind : std::uint8_t {
  none,             // no stack
  plain,            // nothing known: mostly user code
  constructor,      // plain, inside some __init__
  make_parameters,  // modules built, loaded, moved or converted
  make_buckets,     // DistributedDataParallel's own buffers
  workspace,        // scratch memory of a library, recognized by native frames
  communicate,      // inside a collective, whose inputs and outputs the caller allocated
  load_data,
  forward,
  backward,
  recompute,  // forward, run again by backward
  optimizer_step,
  optimizer_setup,  // its constructor, or loading its state
  zero_grad,
};

constexpr bool is_in_backward(CodeKind kind) {
  return kind == CodeKind::backward || kind == CodeKind::recompute;
}

// One for each stack of the store.
std::vector<CodeKind> code_kinds(const Store& store);

// A module's forward(): one step of the path to the module that allocated.
bool is_module_forward(const Store& store, FrameId frame);
// Torch's own frame between the line that calls a module and the module's forward().
bool is_module_call(const Store& store, FrameId frame);
// A line that may itself call a module: neither forward() nor a frame between two of them.
bool is_line_of_module(const Store& store, FrameId frame);
// A line of torch.nn, shared by very many modules.
bool is_torch_module(const Store& store, FrameId frame);

}  // namespace gpumemprof
