#include "event/facts.h"

#include <algorithm>
#include <charconv>

#include "event/foreign/foreign_file.h"

namespace gpumemprof {
namespace {

template <typename T>
std::optional<T> parse(std::string_view text) {
  T number{};
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  const auto parsed = std::from_chars(begin, end, number);
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return number;
}

// The first of several facts of one name counts.
template <typename T>
void take(std::optional<T>& fact, std::string_view value) {
  if (!fact) fact = parse<T>(value);
}
void take(std::string& fact, const std::string& value) {
  if (fact.empty()) fact = value;
}

}  // namespace

DeviceKind device_kind(const Origin& origin) {
  if (origin.device_type == "cuda") return DeviceKind::cuda;
  return origin.device_type == "cpu" ? DeviceKind::cpu : DeviceKind::other;
}

bool has_pool(DeviceKind kind) { return kind != DeviceKind::cpu; }

bool has_pool(const Origin& origin) {
  return has_pool(device_kind(origin)) && std::ranges::none_of(origin.facts, [](const auto& fact) {
           return fact.first == kPoolFact && fact.second == kNotRecorded;
         });
}

RecordingFacts::RecordingFacts(const Origin& origin) {
  any_device_.kind = device_kind(origin);
  any_device_.has_pool = gpumemprof::has_pool(origin);
  constexpr std::string_view kOfDevice = "device ";
  for (const auto& [key, value] : origin.facts) {
    if (key.starts_with(kOfDevice)) {
      take_device_fact(std::string_view(key).substr(kOfDevice.size()), value);
    } else {
      take_process_fact(key, value);
    }
  }
}

const DeviceFacts& RecordingFacts::device(DeviceIndex device) const {
  const auto found = devices_.find(device);
  return found == devices_.end() ? any_device_ : found->second;
}

// "0": the device's name. "0 total_bytes": one of its numbers.
void RecordingFacts::take_device_fact(std::string_view rest, const std::string& value) {
  const std::size_t space = rest.find(' ');
  const std::optional<DeviceIndex> number = parse<DeviceIndex>(rest.substr(0, space));
  if (!number) return;
  DeviceFacts& device = devices_.try_emplace(*number, any_device_).first->second;
  if (space == std::string_view::npos) return take(device.name, value);
  const std::string_view key = rest.substr(space + 1);
  if (key == "total_bytes") take(device.total_bytes, value);
  if (key == "memory_fraction") take(device.memory_fraction, value);
  if (key == "memory_fraction_at_end") take(device.memory_fraction_at_end, value);
  if (key == "num_alloc_retries") take(device.alloc_retries, value);
  if (key == "peak_allocated_bytes") take(device.peak_allocated_bytes, value);
  if (key == "peak_reserved_bytes") take(device.peak_reserved_bytes, value);
  if (key == "nccl_bytes") take(device.nccl_bytes, value);
  if (key == "nccl_provenance" && value == "measured") device.is_nccl_measured = true;
  if (key == "nccl_communicators") take(device.communicators, value);
  if (key == kExcerptFact && !device.excerpt) device.excerpt = parse_excerpt(value);
}

void RecordingFacts::take_process_fact(std::string_view key, const std::string& value) {
  constexpr std::string_view kMesh = "mesh ";
  constexpr std::string_view kMeshSize = "mesh_size ";
  constexpr std::string_view kParameterBytes = "parameter_bytes ";
  if (key == "host") take(process_.host, value);
  if (key == "command") take(process_.command, value);
  if (key == "gpumemprof") take(process_.gpumemprof, value);
  if (key == "torch") take(process_.torch, value);
  if (key == "python") take(process_.python, value);
  if (key == "capture") take(process_.capture_mode, value);
  if (key == "forward_stacks" && value == "on") process_.has_forward_stacks = true;
  if (key == "settings") take(process_.settings, value);
  if (key == "pid") take(process_.pid, value);
  if (key == "rank") take(process_.rank, value);
  if (key == "local_rank") take(process_.local_rank, value);
  if (key == "world_size") take(process_.world_size, value);
  if (key == "job") take(process_.job, value);
  if (key == "restart_count") take(process_.restart_count, value);
  if (key == "failure_type") take(process_.failure_type, value);
  if (key == "failure_place") take(process_.failure_place, value);
  if (key == "failure_of_peer" && value == "yes") process_.is_failure_of_peer = true;
  if (key == "failure_unix_ns") take(process_.failure_unix_ns, value);
  if (key == "host_resident_bytes") take(process_.host_resident_bytes, value);
  if (key == "host_available_bytes") take(process_.host_available_bytes, value);
  if (key == "host_total_bytes") take(process_.host_total_bytes, value);
  const std::optional<std::uint64_t> number = parse<std::uint64_t>(value);
  if (!number) return;
  if (key.starts_with(kMesh))
    process_.mesh_coordinates.emplace_back(key.substr(kMesh.size()), *number);
  if (key.starts_with(kMeshSize))
    process_.mesh_sizes.try_emplace(std::string(key.substr(kMeshSize.size())), *number);
  if (key.starts_with(kParameterBytes))
    process_.parameter_bytes.try_emplace(std::string(key.substr(kParameterBytes.size())), *number);
}

}  // namespace gpumemprof
