#include "analysis/sources/cache_code.h"

#include <algorithm>
#include <array>
#include <string>

namespace gpumemprof {
namespace {

std::string lowered(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(), [](char letter) {
    return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
  });
  return result;
}

bool has_any(std::string_view text, const auto& parts) {
  return std::any_of(parts.begin(), parts.end(), [&](std::string_view part) {
    return text.find(part) != std::string_view::npos;
  });
}

// "DynamicCache.update", "StaticLayer.lazy_initialization" in transformers' own file.
bool is_cache_frame(std::string_view file, std::string_view name) {
  if (file.ends_with("/cache_utils.py")) return true;
  const std::size_t dot = name.rfind('.');
  const std::string_view owner = dot == std::string_view::npos ? "" : name.substr(0, dot);
  constexpr std::array<std::string_view, 5> kOwners = {"KVCache", "KeyValueCache", "StaticCache",
                                                       "DynamicCache", "PagedCache"};
  return has_any(owner, kOwners) || is_kv_cache_name(name);
}

}  // namespace

bool is_kv_cache_name(std::string_view name) {
  constexpr std::array<std::string_view, 10> kNames = {
      "past_key_value", "past_kv",   "kv_cache",    "kvcache", "kv-cache",
      "kv cache",       "key_cache", "value_cache", "cache_k", "cache_v"};
  constexpr std::array<std::string_view, 2> kLast = {"k_cache", "v_cache"};
  const std::string text = lowered(name);
  return has_any(text, kNames) || has_any(text, kLast);
}

CacheCode::CacheCode(const Store& store) : store_(store) {
  std::vector<bool> frames;
  frames.reserve(store.frames().size());
  for (const Frame& frame : store.frames().span())
    frames.push_back(is_cache_frame(store.text(frame.file), store.text(frame.name)));
  const StackTrie& stacks = store.stacks();
  is_cache_stack_.reserve(stacks.size());
  for (std::size_t index = 0; index < stacks.size(); ++index) {
    const StackId caller = stacks.caller(StackId(index));
    is_cache_stack_.push_back(frames[stacks.frame(StackId(index)).index] ||
                              (!caller.is_none() && is_cache_stack_[caller.index]));
  }
}

bool CacheCode::holds(const DeviceRecord& record, std::size_t row) const {
  const StackId stack = record.allocations.stack[row];
  if (!stack.is_none() && is_cache_stack_[stack.index]) return true;
  const std::uint32_t birth = record.allocations.alloc_event[row];
  if (birth == kNoEvent || birth >= record.events.user_metadata.size()) return false;
  const StringId tag = record.events.user_metadata[birth];
  return !tag.is_none() && is_kv_cache_name(store_.text(tag));
}

}  // namespace gpumemprof
