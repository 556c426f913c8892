// The modules of a model as code, and the list of modules that the model's loop runs.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/store.h"

namespace gpumemprof {

// The list of modules that the model's loop runs, as code: "model.transformer.h". Found by the
// modules of its blocks (find_block_modules); if the recording does not have those, the list with
// as many elements. None if there is no such list.
std::optional<std::string> find_block_list(const Store& store, std::size_t blocks,
                                           const std::vector<std::string>& modules);

// "model.h[0]" for the path "h.0", which is not valid Python.
std::string module_code(std::string_view path);

// False for a module that runs several times, or modules of several models: a wrapped forward()
// could not distinguish the blocks.
bool are_unique(const std::vector<std::string>& modules);

}  // namespace gpumemprof
