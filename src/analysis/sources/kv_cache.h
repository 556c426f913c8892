// The KV cache of an inference run: memory that forward allocates and later calls read.
//
// It shows in three ways. Blocks from one line are replaced, call after call, by slightly larger
// ones (torch.cat): the old block lives until the new one is allocated. Or blocks of one size are
// allocated once, in one call, and kept for all that follow (a static cache). Or the program names
// it: by the class that creates it, by a tag, by the name of a label.
#pragma once

#include <vector>

#include "analysis/sources/sources.h"

namespace gpumemprof {

// By row: whether it is part of such a cache. Only for inference runs.
std::vector<bool> find_kv_cache(const Store& store, const DeviceRecord& record);

}  // namespace gpumemprof
