// The list of remedies: one line for each. The order decides between equal savings.
#pragma once

#include <string_view>
#include <vector>

#include "analysis/advice/remedies/remedy.h"

#define GPUMEMPROF_REMEDIES(REMEDY) \
  REMEDY(checkpointing)             \
  REMEDY(autocast_bf16)             \
  REMEDY(pure_bf16)                 \
  REMEDY(sgd)                       \
  REMEDY(sgd_momentum)              \
  REMEDY(lion)                      \
  REMEDY(adafactor)                 \
  REMEDY(adam_8bit)                 \
  REMEDY(paged_adamw_8bit)          \
  REMEDY(foreach_off)               \
  REMEDY(fused)                     \
  REMEDY(batch_x0_5)                \
  REMEDY(batch_x2)                  \
  REMEDY(accumulate_x4)             \
  REMEDY(expandable_segments)       \
  REMEDY(micro_batch_x0_5)          \
  REMEDY(micro_batch_x0_25)         \
  REMEDY(micro_batch_x0_125)        \
  REMEDY(step_in_backward)          \
  REMEDY(chunked_loss)              \
  REMEDY(offload_activations)       \
  REMEDY(offload_optimizer)         \
  REMEDY(checkpointing_selective)   \
  REMEDY(autocast_fp16)             \
  REMEDY(sequence_x0_5)             \
  REMEDY(sequence_x2)               \
  REMEDY(zero_grad_to_none)         \
  REMEDY(zero_grad_early)           \
  REMEDY(empty_cache)

namespace gpumemprof {

// Defined in the file of that name, in one of the folders beside this one.
namespace remedies {
#define GPUMEMPROF_DECLARE_REMEDY(name) RemedySpec name();
GPUMEMPROF_REMEDIES(GPUMEMPROF_DECLARE_REMEDY)
#undef GPUMEMPROF_DECLARE_REMEDY
}  // namespace remedies

const std::vector<RemedySpec>& all_remedies();
// By name; nullptr if there is none.
const RemedySpec* find_remedy(std::string_view name);

}  // namespace gpumemprof
