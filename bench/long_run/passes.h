// The passes of the model through its layers, compiled to scripts: forward, backward, evaluation.
#pragma once

#include "long_run/code.h"
#include "long_run/model.h"
#include "long_run/script.h"

namespace gpumemprof::long_run {

struct Passes {
  Script forward;
  Script backward;
  Script evaluation;  // of one batch, without autograd
  Slot loss = 0;
  Slot evaluation_loss = 0;
  Place first_matmul;  // which makes cuBLAS take its workspace
};

// The gradient of parameter n gets slot first_gradient + n.
Passes compile_passes(const Model& model, const Code& code, Slots& slots, Slot first_gradient);

}  // namespace gpumemprof::long_run
