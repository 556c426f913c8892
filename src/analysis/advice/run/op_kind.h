// What kind of operation allocated, as far as mixed precision is concerned: autocast runs some in
// half precision, some in fp32, and lets the rest follow their inputs.
#pragma once

#include <vector>

#include "store/store.h"

namespace gpumemprof {

enum class OpKind : std::uint8_t {
  unknown,    // a line of user code: any operation
  matmul,     // linear layers, convolutions, recurrent layers: half precision
  attention,  // half precision, on inputs that already exist
  fp32,       // normalization
  softmax,    // fp32, and saves its result instead of its input
  loss,
  embedding,  // looked up in the weights: their precision
  pool,       // follows its input, and may keep 64-bit indices
  follow,     // activation functions, dropout, batch norm: same as the input
};

// One for each stack of the store.
std::vector<OpKind> op_kinds(const Store& store);

// Whether a recurrent layer of torch.nn allocated it.
bool is_recurrent(const Store& store, StackId stack);
// Whether a convolution of torch.nn allocated it.
bool is_convolution(const Store& store, StackId stack);

// Whether code of the transformers library called it: it computes softmax, and the norms it
// implements itself, in fp32 whatever the model's precision.
bool is_of_transformers(const Store& store, StackId stack);

// Whether a library's loss converts the logits to fp32 first, whatever their precision.
bool is_upcasting_loss(const Store& store, StackId stack);

}  // namespace gpumemprof
