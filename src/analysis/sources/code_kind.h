// What a call stack says of the memory allocated under it: which part of a training step the code
// belongs to. Torch's own functions are known by file and name; the user's are not, so that any
// script is read alike.
#pragma once

#include <cstdint>
#include <vector>

#include "store/store.h"

namespace gpumemprof {

enum class CodeKind : std::uint8_t {
  none,             // no stack
  plain,            // nothing known: the user's own lines, mostly
  constructor,      // plain, inside some __init__
  make_parameters,  // modules built, loaded, moved or converted
  make_buckets,     // DistributedDataParallel's own buffers
  workspace,        // scratch memory of a library, by its native frames
  communicate,      // inside a collective, whose inputs and outputs the caller made
  load_data,
  forward,
  backward,
  recompute,  // forward, run again by backward
  optimizer_step,
  optimizer_setup,  // its constructor, or its state loaded
  zero_grad,
};

constexpr bool is_in_backward(CodeKind kind) {
  return kind == CodeKind::backward || kind == CodeKind::recompute;
}

// One for each stack of the store.
std::vector<CodeKind> code_kinds(const Store& store);

// A forward() of a module: a step of the path to the module that allocated.
bool is_module_forward(const Store& store, FrameId frame);
// Torch's own frame between the line that calls a module and the module's forward().
bool is_module_call(const Store& store, FrameId frame);
// A line that may call a module by itself: not forward(), nor what stands between two of them.
bool is_line_of_module(const Store& store, FrameId frame);
// A line of torch.nn, which serves very many modules.
bool is_torch_module(const Store& store, FrameId frame);

}  // namespace gpumemprof
