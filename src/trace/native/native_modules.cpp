#include "trace/native/native_modules.h"

#include <algorithm>

#include "trace/content/short_text.h"

namespace gpumemprof::trace {
namespace {

// Three texts of at most 64 KiB each stay below the limit of a block.
constexpr std::size_t kModulesPerBlock = 64;

}  // namespace

void NativeModuleTable::add(const NativeModule& module) {
  if (keys_.insert(module.key).second) unwritten_.push_back(module);
}

bool NativeModuleTable::encode_next(OutBytes& out) {
  if (unwritten_.empty()) return false;
  const std::size_t count = std::min(kModulesPerBlock, unwritten_.size());
  out.varint(count);
  for (std::size_t row = 0; row < count; ++row) {
    put_text(out, unwritten_[row].key);
    put_text(out, unwritten_[row].path);
    put_text(out, unwritten_[row].build_id);
  }
  unwritten_.erase(unwritten_.begin(), unwritten_.begin() + static_cast<std::ptrdiff_t>(count));
  return true;
}

bool decode_native_modules(InBytes in, std::vector<NativeModule>& modules) {
  for (std::size_t count = in.count(); count > 0 && in.ok(); --count) {
    NativeModule module;
    module.key = take_text(in);
    module.path = take_text(in);
    module.build_id = take_text(in);
    modules.push_back(std::move(module));
  }
  return in.is_spent();
}

}  // namespace gpumemprof::trace
