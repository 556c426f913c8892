// Shared by the half-precision remedies: whether a result has the same size in every precision.
#pragma once

#include "analysis/advice/remedies/rewrite.h"
#include "analysis/advice/run/run_facts.h"

namespace gpumemprof {

// Masks of one byte per element, indices of eight, and the statistics of norms.
bool is_fixed(const RunFacts& facts, const ForwardPass& pass, const Operation& operation,
              std::uint32_t place);

// On a GPU torch has fused attention kernels for half precision where it has none for fp32 (keys
// and values shared by several heads): what is materialized in fp32 is not in half precision.
void fuse_attention(Rewrite& rewrite, const ForwardPass& pass, const Operation& operation);

// Recurrent layers have other kernels for half precision, which lay out memory in their own way:
// the bytes that halving such results saves in one pass are uncertain.
std::uint64_t doubtful_recurrent_bytes(const RunFacts& facts, const ForwardPass& pass);

}  // namespace gpumemprof
