// The line of user code that many places have in common.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "store/store.h"

namespace gpumemprof {

// The innermost line of user code above nearly all bytes of these stacks: many of a model's own
// lines may be involved where one line of the training loop keeps what they allocated. None if
// there is no such line.
FrameId common_line(const Store& store,
                    const std::vector<std::pair<StackId, std::uint64_t>>& bytes_of_stacks);

}  // namespace gpumemprof
