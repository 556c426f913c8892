// Every setting that changes what the allocator does, alone and combined: the suites run under all
// of them.
#pragma once

#include <array>
#include <cctype>
#include <string>

#include "event/alloc_conf.h"

namespace gpumemprof::sim {

struct TestedSettings {
  const char* text;
  TorchVersion version{2, 11};
};

inline constexpr std::array kTestedSettings = {
    TestedSettings{""},
    TestedSettings{"", {2, 4}},
    TestedSettings{"", {2, 13}},
    TestedSettings{"expandable_segments:True"},
    TestedSettings{"expandable_segments:True", {2, 4}},
    TestedSettings{"expandable_segments:True", {2, 13}},
    TestedSettings{"expandable_segments:True,roundup_power2_divisions:4"},
    TestedSettings{"expandable_segments:True,large_segment_size_mb:64"},
    TestedSettings{"expandable_segments:True,max_split_size_mb:48"},
    TestedSettings{"max_split_size_mb:32"},
    TestedSettings{"max_split_size_mb:200"},
    TestedSettings{"max_split_size_mb:64,max_non_split_rounding_mb:100"},
    TestedSettings{"max_split_size_mb:32,garbage_collection_threshold:0.7"},
    TestedSettings{"garbage_collection_threshold:0.5"},
    TestedSettings{"roundup_power2_divisions:8"},
    TestedSettings{"roundup_power2_divisions:[1:8,16:4,64:2]"},
    TestedSettings{"large_segment_size_mb:48"},
};

inline AllocatorSettings settings_of(const TestedSettings& tested) {
  return parse_alloc_conf(tested.text, tested.version).value().settings;
}

// For test names: only letters, digits and underscores.
inline std::string name_of(const TestedSettings& tested) {
  std::string name = *tested.text == '\0' ? "default" : tested.text;
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name + "_torch_" + std::to_string(tested.version.major) + "_" +
         std::to_string(tested.version.minor);
}

}  // namespace gpumemprof::sim
