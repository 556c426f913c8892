#include <algorithm>

#include "capture/output.h"

namespace gpumemprof::capture {
namespace {

// Numbers outside of this have no slot.
bool is_cuda_device(DeviceIndex device) { return device >= 0 && device < kCpuDevice; }

}  // namespace

bool Output::is_recorded(std::uint8_t number) const {
  if (number == kCpuDevice) return memory_ == MemoryKind::cpu;
  return memory_ == MemoryKind::cuda && devices_[number] && devices_[number]->is_joined;
}

std::vector<Output::WrittenSet> Output::write_set(const std::vector<StorageLabel>& labels) {
  std::map<std::uint8_t, std::vector<Label>> by_device;
  for (const StorageLabel& label : labels) {
    if (label.device != kHostDevice && !is_cuda_device(label.device)) continue;
    const std::uint8_t number =
        label.device == kHostDevice ? kCpuDevice : static_cast<std::uint8_t>(label.device);
    if (!is_recorded(number)) continue;
    by_device[number].push_back({label.kind, label.address, writer_->add_string(label.name)});
  }
  std::vector<WrittenSet> written;
  for (const auto& [number, mine] : by_device) {
    for (std::size_t first = 0; first < mine.size(); first += kMaxLabelsPerSet) {
      const std::size_t count = std::min(mine.size() - first, kMaxLabelsPerSet);
      written.push_back({number, writer_->add_label_set(std::span(mine).subspan(first, count))});
    }
  }
  return written;
}

void Output::apply_labels(LabelSetNumber set, const std::vector<StorageLabel>& labels) {
  if (has_failed()) return;
  auto known = label_sets_.find(set);
  if (known == label_sets_.end()) known = label_sets_.emplace(set, write_set(labels)).first;
  for (const WrittenSet& written : known->second) {
    writer_->add_labelling({index_of(written.device), written.row,
                            static_cast<std::uint32_t>(device(written.device).rows)});
  }
}

void Output::mark_phase(PhaseMark::Kind kind, std::uint32_t number) {
  for (std::size_t slot = 0; slot < devices_.size(); ++slot) {
    const auto device_number = static_cast<std::uint8_t>(slot);
    if (!devices_[slot] || !is_recorded(device_number)) continue;
    writer_->add_phase_mark(
        {index_of(device_number), kind, number, static_cast<std::uint32_t>(devices_[slot]->rows)});
  }
}

void Output::describe_modules(const std::vector<ModuleDescription>& modules) {
  for (const ModuleDescription& module : modules) {
    writer_->add_module({writer_->add_string(module.path), writer_->add_string(module.class_name),
                         writer_->add_string(module.forward_file), module.forward_line,
                         module.forward_last_line});
  }
}

}  // namespace gpumemprof::capture
