#include <algorithm>

#include "capture/stream/output.h"

namespace gpumemprof::capture {
namespace {

// Numbers outside this range have no slot.
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

void Output::describe_modules(const std::vector<ModuleDescription>& modules,
                              const std::vector<std::uint32_t>& numbers) {
  for (std::size_t row = 0; row < modules.size(); ++row) {
    const ModuleDescription& module = modules[row];
    ModuleLabel label{writer_->add_string(module.path),
                      writer_->add_string(module.class_name),
                      writer_->add_string(module.forward_file),
                      module.forward_line,
                      module.forward_last_line,
                      numbers[row],
                      module.is_root};
    // A program that keeps recreating its model describes it each time.
    if (!described_.insert(label).second) continue;
    if (label.number != kNoModule) {
      if (has_module_.size() <= label.number) has_module_.resize(label.number + std::size_t{1});
      has_module_[label.number] = true;
    }
    writer_->add_module(label);
  }
}

std::uint32_t Output::module_of(std::uint32_t number, const StackMirror& mirror) {
  if (number == kNoModule) return number;
  if (has_module_.size() <= number) has_module_.resize(number + std::size_t{1});
  if (has_module_[number]) return number;
  has_module_[number] = true;
  const NumberedModule& module = mirror.modules().module(number);
  ModuleLabel label;
  if (module.is_named) label.path = writer_->add_string(module.path);
  label.class_name = writer_->add_string(module.class_name);
  label.number = number;
  label.is_root = module.is_root;
  writer_->add_module(label);
  return number;
}

}  // namespace gpumemprof::capture
