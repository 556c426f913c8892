#include "analysis/info/recording_info.h"

#include <string>

namespace gpumemprof {
namespace {

std::optional<std::string> if_known(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional(text);
}

std::optional<std::string> if_known(std::optional<std::uint64_t> number) {
  return number ? std::optional(std::to_string(*number)) : std::nullopt;
}

DeviceInfo device_info(const Store& store, DeviceIndex device, std::uint64_t events) {
  const bool is_host = device == kHostDevice;
  DeviceInfo info;
  info.device = store.device_name(device);
  info.kind = is_host ? "cpu" : store.origin().device_type;
  info.events = events;
  if (info.kind == "cpu") return info;
  const DeviceFacts& facts = store.facts().device(device);
  info.name = if_known(facts.name);
  info.total_bytes = facts.total_bytes;
  return info;
}

// All but the devices and what is missing.
RecordingInfo info_of(const Store& store, const FileInfo& file) {
  const Origin& origin = store.origin();
  const ProcessFacts& process = store.facts().process();
  RecordingInfo info;
  info.file = file;
  info.kind = origin.kind;
  info.cut = origin.cut;
  info.gpumemprof_version = if_known(process.gpumemprof);
  info.torch_version = if_known(process.torch);
  info.python_version = if_known(process.python);
  info.host = if_known(process.host);
  info.process_id = if_known(process.pid);
  info.rank = if_known(process.rank);
  info.command = if_known(process.command);
  info.capture_mode = if_known(process.capture_mode);
  info.has_stacks = store.stacks().size() > 0;
  info.has_forward_stacks = process.has_forward_stacks;
  info.has_modules = store.has_module_numbers();
  info.has_labels = store.label_set_count() > 0;
  info.has_card_samples = !store.samples().empty();
  return info;
}

}  // namespace

RecordingInfo find_info(const Store& store, const FileInfo& file) {
  RecordingInfo info = info_of(store, file);
  info.completeness = find_completeness(store);
  for (const auto& record : store.devices())
    info.devices.push_back(device_info(store, record->device, record->events.size()));
  info.has_history = store.event_count() > 0;
  return info;
}

RecordingInfo find_info(const Store& store, const FileInfo& file,
                        const std::vector<CountedDevice>& devices) {
  RecordingInfo info = info_of(store, file);
  std::vector<DeviceExtent> extents;
  for (const CountedDevice& device : devices) {
    extents.push_back(device.extent);
    info.devices.push_back(device_info(store, device.extent.device, device.events));
    info.has_history = info.has_history || device.events > 0;
  }
  info.completeness = find_completeness(store, extents);
  return info;
}

}  // namespace gpumemprof
