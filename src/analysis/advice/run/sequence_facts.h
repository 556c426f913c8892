// SequenceFacts: what a recording says about the length of its sequences.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "analysis/advice/run/run_facts.h"

namespace gpumemprof {

struct SequenceFacts {
  bool has_sequence = false;             // embeddings, attention or recurrent layers were found
  std::uint64_t attention_bytes = 0;     // of forward's token-by-token matrices, in one pass
  std::set<std::uint64_t> square_sizes;  // of those matrices and of everything with their shape
  std::vector<char> is_square;           // by row of the recording
};

SequenceFacts find_sequence(const RunFacts& facts);

}  // namespace gpumemprof
