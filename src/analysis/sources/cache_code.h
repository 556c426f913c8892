// Memory that the program itself identifies as a KV cache: by the code that allocates it, by a tag,
// or by the name of a label.
#pragma once

#include <string_view>
#include <vector>

#include "store/store.h"

namespace gpumemprof {

// "past_key_values.3.0", "layers.0.attention.cache_k", "kv_cache"
bool is_kv_cache_name(std::string_view name);

class CacheCode {
 public:
  // Inspects all frames once. The store must outlive it.
  explicit CacheCode(const Store& store);

  // Whether the allocation was made by such code, or under such a tag.
  [[nodiscard]] bool holds(const DeviceRecord& record, std::size_t row) const;

 private:
  const Store& store_;
  std::vector<bool> is_cache_stack_;
};

}  // namespace gpumemprof
