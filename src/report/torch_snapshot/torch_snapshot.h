// Writes a recording as a PyTorch memory snapshot: the pickle that torch.cuda.memory._dump_snapshot
// writes and that PyTorch's memory_viz, and this program, open. Frames and stacks are shared
// through the memo, as torch shares them; memory use is that of the distinct stacks and the state
// at the end.
//
// A snapshot cannot hold gaps, device samples and facts; its times are whole microseconds.
#pragma once

#include <string>

#include "base/file_sink.h"
#include "base/result.h"
#include "store/store.h"

namespace gpumemprof {

// The store must have been replayed where it does not list the state at the end itself.
Status write_torch_snapshot(const Store& store, const std::string& path,
                            FileSink::Existing existing = FileSink::Existing::refuse);

}  // namespace gpumemprof
