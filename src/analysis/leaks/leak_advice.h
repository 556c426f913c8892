// What to change about a leak, as far as the code that allocates shows it.
#pragma once

#include <string>
#include <vector>

#include "analysis/code/code_kind.h"
#include "analysis/leaks/decide.h"
#include "store/store.h"

namespace gpumemprof {

// What the rows of a leaking line have in common.
struct LeakEvidence {
  StackId stack;  // of the allocation that leaks most, with the frames of libraries
  bool is_backward = false;
  bool is_replaced = false;
  bool is_cycle = false;
  bool is_inference = false;
  MemorySource source = MemorySource::unknown;
  double blocks_per_step = 0;
  std::uint32_t rises = 0;
};

// One sentence: what probably keeps the memory, and what to change.
std::string leak_advice(const Store& store, const LeakEvidence& evidence);
// Why that, or the verdict, may be wrong; empty if there is no doubt.
std::string leak_doubt(const LeakEvidence& evidence);

}  // namespace gpumemprof
