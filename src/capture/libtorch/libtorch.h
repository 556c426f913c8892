// libtorch's CUDA side, asked without its headers and without Python: which version is loaded, how
// many devices it sees, and its own list of segments and blocks.
//
// All of it goes through exported functions whose arguments and results are the same in all
// versions. Nothing is loaded: a process that does not use CUDA has none of these.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "capture/capture.h"

namespace gpumemprof::capture {

// None: before torch 2.9, which does not say.
std::optional<TorchVersionNumber> loaded_torch_version();

// How many CUDA devices torch sees; 0 where its CUDA libraries are not loaded.
int cuda_device_count();

// torch's snapshot of all devices, as torch's C++ side pickles it. The tracker sees it as one event
// for each device. Call with no lock held that a callback of torch's allocator takes.
Result<std::string> pickled_snapshot();

}  // namespace gpumemprof::capture
