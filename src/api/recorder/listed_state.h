// torch's own list of its CUDA memory, read from the snapshot that its C++ side pickles.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "capture/capture.h"

namespace gpumemprof::api {

struct ListedState {
  std::vector<capture::ListedSegment> segments;
  std::string settings;  // PYTORCH_CUDA_ALLOC_CONF as torch read it
};

Result<ListedState> listed_state(const std::string& pickled);

}  // namespace gpumemprof::api
