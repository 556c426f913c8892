// Torch's own optimizers, recognized by stacks that pass through their code.
#pragma once

#include <cstdint>
#include <string_view>

#include "store/store.h"

namespace gpumemprof {

// The file of torch's own optimizer that a stack passes through, "adamw.py"; empty if none.
std::string_view optimizer_file(const Store& store, StackId stack);

// How many buffers of a parameter's size it keeps for each parameter; 0: not known, or depends on
// its options.
std::uint32_t states_of_optimizer(std::string_view file);

}  // namespace gpumemprof
