// Facts with types: what the text facts of a recording say about its process and its devices,
// parsed once when it is loaded. Unknown where the recording does not say, or not in the expected
// form.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "event/excerpt.h"
#include "event/recording.h"

namespace gpumemprof {

enum class DeviceKind : std::uint8_t { cuda, cpu, other };

DeviceKind device_kind(const Origin& origin);
// Whether memory comes from a caching allocator: a pool of segments that are split into blocks.
bool has_pool(DeviceKind kind);

struct DeviceFacts {
  DeviceKind kind = DeviceKind::cuda;
  bool has_pool = true;
  std::string name;  // "NVIDIA H200"
  std::optional<std::uint64_t> total_bytes;
  // The process may use this share of the total; a program may change it during the run.
  std::optional<double> memory_fraction;
  std::optional<double> memory_fraction_at_end;
  // torch's own counters, which no event reports.
  std::optional<std::uint64_t> alloc_retries;
  std::optional<std::uint64_t> peak_allocated_bytes;
  std::optional<std::uint64_t> peak_reserved_bytes;
  // The most that NCCL's communicators held, outside of the pool.
  std::optional<std::uint64_t> nccl_bytes;
  bool is_nccl_measured = false;  // as the library says; else by difference of the card's use
  std::optional<std::uint64_t> communicators;  // how many were made
  std::optional<ExcerptRange> excerpt;         // none: the recording holds its whole run
};

struct ProcessFacts {
  std::string host;
  std::string command;
  std::string gpumemprof;  // its version, as the next two
  std::string torch;
  std::string python;
  std::string capture_mode;         // how events reached the recorder: "native"
  std::string settings;             // of the allocator, as the environment gave them
  bool has_forward_stacks = false;  // memory allocated in backward has the stack of its forward
  std::optional<std::uint64_t> pid;
  std::optional<std::uint64_t> rank;
  std::optional<std::uint64_t> local_rank;
  std::optional<std::uint64_t> world_size;
  // Main memory when it was last seen to change: of the process, and of the machine or container.
  std::optional<std::uint64_t> host_resident_bytes;
  std::optional<std::uint64_t> host_available_bytes;
  std::optional<std::uint64_t> host_total_bytes;
  // ("dp", 0), ("tp", 3): the process's place in each dimension of its device mesh.
  std::vector<std::pair<std::string, std::uint64_t>> mesh_coordinates;
  // How many places each of these dimensions has, as far as it is known.
  std::map<std::string, std::uint64_t, std::less<>> mesh_sizes;
  std::string job;                             // the launcher's own name for it
  std::optional<std::uint64_t> restart_count;  // how often the launcher had started it again
  // An exception that ended the program: its type, the line that raised it ("train.py:12 step").
  std::string failure_type;
  std::string failure_place;
  std::optional<std::int64_t> failure_unix_ns;
  bool is_failure_of_peer = false;  // its message says that another rank was gone
  // Bytes of parameters, by the name of their type: "bfloat16".
  std::map<std::string, std::uint64_t, std::less<>> parameter_bytes;
};

class RecordingFacts {
 public:
  RecordingFacts() = default;
  explicit RecordingFacts(const Origin& origin);

  // All devices of a recording are of one kind.
  [[nodiscard]] DeviceKind kind() const { return any_device_.kind; }
  [[nodiscard]] bool has_pool() const { return any_device_.has_pool; }
  [[nodiscard]] const ProcessFacts& process() const { return process_; }
  [[nodiscard]] const DeviceFacts& device(DeviceIndex device) const;

 private:
  void take_device_fact(std::string_view rest, const std::string& value);
  void take_process_fact(std::string_view key, const std::string& value);

  ProcessFacts process_;
  DeviceFacts any_device_;  // what holds for a device that no fact names
  std::map<DeviceIndex, DeviceFacts> devices_;
};

}  // namespace gpumemprof
