// The blocks that say which programs and libraries native frames belong to.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "event/native_module.h"
#include "trace/bytes_io.h"

namespace gpumemprof::trace {

// For the reader's limit of memory.
inline constexpr std::size_t kNativeModuleBytes = 256;

// The writer's side: each module once.
class NativeModuleTable {
 public:
  void add(const NativeModule& module);
  // Appends the content of one block and returns true, or returns false when all is written.
  bool encode_next(OutBytes& out);

 private:
  std::set<std::string> keys_;
  std::vector<NativeModule> unwritten_;
};

// False if the content is not such a block.
bool decode_native_modules(InBytes in, std::vector<NativeModule>& modules);

}  // namespace gpumemprof::trace
