// What an excerpt is read from.
#pragma once

#include <string>

#include "index/checkpoint_reader.h"
#include "index/excerpt.h"

namespace gpumemprof {

// From checkpoint `first` to checkpoint `end`.
struct ExcerptSource::Plan {
  IndexFile* file = nullptr;
  CheckpointReader* checkpoints = nullptr;
  std::string recording;
  const IndexedDevice* device = nullptr;
  std::size_t first = 0;
  std::size_t end = 0;
  RunKind kind = RunKind::unknown;
};

}  // namespace gpumemprof
