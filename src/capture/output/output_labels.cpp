#include <algorithm>

#include "capture/output/output.h"

namespace gpumemprof::capture {

std::vector<Output::WrittenSet> Output::write_set(const std::vector<StorageLabel>& labels) {
  std::map<DeviceSlot, std::vector<Label>> by_device;
  for (const StorageLabel& label : labels) {
    const std::optional<DeviceSlot> slot = slot_of(label.device);
    if (!slot || !is_recorded(*slot)) continue;
    by_device[*slot].push_back({label.kind, label.address, writer_->add_string(label.name)});
  }
  std::vector<WrittenSet> written;
  for (const auto& [slot, mine] : by_device) {
    for (std::size_t first = 0; first < mine.size(); first += kMaxLabelsPerSet) {
      const std::size_t count = std::min(mine.size() - first, kMaxLabelsPerSet);
      written.push_back({slot, writer_->add_label_set(std::span(mine).subspan(first, count))});
    }
  }
  return written;
}

void Output::apply_labels(LabelSetNumber set, const std::vector<StorageLabel>& labels) {
  if (has_failed()) return;
  if (chapters_) chapters_->label(set, labels);
  auto known = label_sets_.find(set);
  if (known == label_sets_.end()) known = label_sets_.emplace(set, write_set(labels)).first;
  for (const WrittenSet& written : known->second) {
    writer_->add_labelling({index_in_file(written.device), written.row,
                            static_cast<std::uint32_t>(device(written.device).rows)});
  }
}

void Output::mark_phase(PhaseMark::Kind kind, std::uint32_t number) {
  if (chapters_) chapters_->mark(kind, number);
  if (memory_ == MemoryKind::cpu && device(kCpuSlot).rows + device(kCpuSlot).earlier_rows == 0) {
    early_marks_.emplace_back(kind, number);
    return;
  }
  for_each_device([&](DeviceSlot slot, const Device& mine) {
    if (!is_recorded(slot)) return;
    writer_->add_phase_mark(
        {index_in_file(slot), kind, number, static_cast<std::uint32_t>(mine.rows)});
  });
}

void Output::write_early_marks() {
  for (const auto& [kind, number] : early_marks_)
    writer_->add_phase_mark({index_in_file(kCpuSlot), kind, number, 0});
  early_marks_.clear();
}

}  // namespace gpumemprof::capture
