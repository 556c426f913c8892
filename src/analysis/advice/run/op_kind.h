// What kind of operation allocated (OpKind), as far as mixed precision is concerned. What single
// frames mean is in analysis/code/torch_code.cpp.
#pragma once

#include <vector>

#include "analysis/code/torch_code.h"
#include "store/store.h"

namespace gpumemprof {

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
