// What an excerpt is read from.
#pragma once

#include <string>

#include "index/excerpt.h"
#include "index/index_file.h"

namespace gpumemprof {

// From checkpoint `first` to checkpoint `end`.
struct ExcerptSource::Plan {
  IndexFile* file = nullptr;
  std::string recording;
  const IndexedDevice* device = nullptr;
  std::size_t first = 0;
  std::size_t end = 0;
  RunKind kind = RunKind::unknown;

  [[nodiscard]] Result<DeviceCheckpoint> state(std::size_t checkpoint) const;
};

Error damaged_index(const std::string& recording);

}  // namespace gpumemprof
