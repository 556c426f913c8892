// The tensors that an optimizer's groups hold, as addresses of Python objects.
#pragma once

#include <cstdint>
#include <vector>

#include "bindings.h"
#include "capture/hooks/tensor_places.h"

namespace gpumemprof::bindings {

// The tensors under "params" of each group; false where one has a type other than `kinds`, whose
// memory may be elsewhere than torch's own objects say.
bool gather_tensors(const nb::list& groups, const nb::tuple& kinds,
                    std::vector<std::uintptr_t>& tensors);

}  // namespace gpumemprof::bindings
