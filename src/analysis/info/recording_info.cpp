#include "analysis/info/recording_info.h"

#include <algorithm>
#include <charconv>

namespace gpumemprof {
namespace {

std::optional<std::string> fact(const Store& store, std::string_view name) {
  for (const auto& [known, value] : store.origin().facts) {
    if (known == name && !value.empty()) return value;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> number(const std::optional<std::string>& text) {
  if (!text) return std::nullopt;
  std::uint64_t value = 0;
  const char* const end = text->data() + text->size();
  const auto parsed = std::from_chars(text->data(), end, value);
  return parsed.ptr == end ? std::optional(value) : std::nullopt;
}

DeviceInfo device_info(const Store& store, const DeviceRecord& record) {
  const bool is_host = record.device == kHostDevice;
  const std::string prefix = "device " + std::to_string(record.device);
  DeviceInfo info;
  info.device = store.device_name(record.device);
  info.kind = is_host ? "cpu" : store.origin().device_type;
  info.events = record.events.size();
  if (info.kind == "cpu") return info;
  info.name = fact(store, prefix);
  info.total_bytes = number(fact(store, prefix + " total_bytes"));
  return info;
}

}  // namespace

RecordingInfo find_info(const Store& store, const FileInfo& file) {
  const Origin& origin = store.origin();
  RecordingInfo info;
  info.file = file;
  info.kind = origin.kind;
  info.cut = origin.cut;
  info.completeness = find_completeness(store);
  for (const auto& record : store.devices()) info.devices.push_back(device_info(store, *record));
  info.gpumemprof_version = fact(store, "gpumemprof");
  info.torch_version = fact(store, "torch");
  info.python_version = fact(store, "python");
  info.host = fact(store, "host");
  info.process_id = fact(store, "pid");
  info.rank = fact(store, "rank");
  info.command = fact(store, "command");
  info.capture_mode = fact(store, "capture");
  info.has_history = store.event_count() > 0;
  info.has_stacks = store.stacks().size() > 0;
  info.has_forward_stacks = fact(store, "forward_stacks") == "on";
  info.has_modules = store.has_module_numbers();
  info.has_labels = store.label_set_count() > 0;
  info.has_card_samples = !store.samples().empty();
  return info;
}

}  // namespace gpumemprof
