// The canonical text of an AllocConf.
#include <algorithm>
#include <array>
#include <charconv>

#include "event/alloc_conf.h"

namespace gpumemprof {
namespace {

std::string number_text(double value) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return std::string(text.data(), end);
}

std::string roundup_text(const AllocatorSettings& settings) {
  const auto& slots = settings.roundup_divisions;
  if (std::all_of(slots.begin(), slots.end(),
                  [&](std::uint64_t slot) { return slot == slots[0]; })) {
    return slots[0] <= 1 ? "" : std::to_string(slots[0]);
  }
  // The first entry stands for all below it, '>' for all above the last. The last named slot gets
  // the same value as '>', so that the text means the same in every version.
  std::size_t first = 0;
  while (slots[first + 1] == slots[0]) ++first;
  std::size_t last = slots.size() - 1;
  while (slots[last - 1] == slots.back()) --last;
  std::string list = "[";
  for (std::size_t slot = first; slot <= last; ++slot) {
    list += std::to_string(1ULL << slot) + ":" + std::to_string(slots[slot]) + ",";
  }
  return list + ">:" + std::to_string(slots.back()) + "]";
}

}  // namespace

std::string to_string(const AllocConf& conf) {
  std::string text;
  const auto add = [&text](std::string_view key, std::string_view value) {
    text += (text.empty() ? "" : ",") + std::string(key) + ":" + std::string(value);
  };
  const AllocatorSettings defaults;
  const AllocatorSettings& settings = conf.settings;
  const auto add_megabytes = [&](std::string_view key, std::uint64_t bytes, std::uint64_t usual) {
    if (bytes != usual) add(key, std::to_string(bytes / kMiB));
  };
  if (!conf.is_native_backend) add("backend", "cudaMallocAsync");
  if (settings.expandable_segments) add("expandable_segments", "True");
  add_megabytes("max_split_size_mb", settings.max_split_bytes, defaults.max_split_bytes);
  add_megabytes("max_non_split_rounding_mb", settings.max_non_split_rounding_bytes,
                defaults.max_non_split_rounding_bytes);
  add_megabytes("large_segment_size_mb", settings.large_segment_bytes,
                defaults.large_segment_bytes);
  if (const std::string roundup = roundup_text(settings); !roundup.empty())
    add("roundup_power2_divisions", roundup);
  if (settings.garbage_collection_threshold > 0) {
    add("garbage_collection_threshold", number_text(settings.garbage_collection_threshold));
  }
  if (conf.memory_fraction) add("per_process_memory_fraction", number_text(*conf.memory_fraction));
  if (settings.throw_on_device_oom) add("throw_on_cudamalloc_oom", "True");
  for (const auto& [key, value] : conf.other) add(key, value);
  return text;
}

}  // namespace gpumemprof
