// PYTORCH_CUDA_ALLOC_CONF: a settings string, parsed as a given torch version would parse it.
//
// Every key a version knows is accepted; those that do not change where device memory is placed are
// kept as text, so that the canonical form reproduces them. Sizes in the string are in MiB, as in
// torch.
#pragma once

#include <compare>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "event/allocator_settings.h"

namespace gpumemprof {

struct TorchVersion {
  int major = 2;
  int minor = 11;
  constexpr auto operator<=>(const TorchVersion&) const = default;
};

inline constexpr TorchVersion kOldestTorch{2, 4};
inline constexpr TorchVersion kNewestTorch{2, 13};

// "2.11", "2.11.0+cu130", "2.13.0a0+git1234". A version outside 2.4 … 2.13 is an error.
Result<TorchVersion> parse_torch_version(std::string_view text);
std::string to_string(TorchVersion version);

struct AllocConf {
  AllocatorSettings settings;
  std::optional<double> memory_fraction;  // per_process_memory_fraction, torch 2.10
  bool is_native_backend = true;          // false: cudaMallocAsync, which has no pool to simulate
  std::vector<std::pair<std::string, std::string>>
      other;  // recognised, without effect on placement

  bool operator==(const AllocConf&) const = default;
};

Result<AllocConf> parse_alloc_conf(std::string_view text, TorchVersion version);

// The sizes that a snapshot states nowhere but in its settings string: large_segment_size_mb and
// max_non_split_rounding_mb. The version that wrote it is not known, so every key is accepted, and
// a string or a value that makes no sense changes nothing.
void apply_sizes_of_conf(std::string_view text, AllocatorSettings& settings);

// The shortest string that torch parses as this; empty for the defaults.
std::string to_string(const AllocConf& conf);

}  // namespace gpumemprof
