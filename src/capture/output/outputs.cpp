#include "capture/output/outputs.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace gpumemprof::capture {

void Outputs::add(std::unique_ptr<Output> output) {
  GMP_CHECK(output->number() > newest_);
  newest_ = output->number();
  outputs_.push_back(std::move(output));
}

Output* Outputs::find(RecordingNumber number) {
  const auto found = std::find_if(outputs_.begin(), outputs_.end(),
                                  [&](const auto& output) { return output->number() == number; });
  return found == outputs_.end() ? nullptr : found->get();
}

std::unique_ptr<Output> Outputs::take(RecordingNumber number) {
  const auto found = std::find_if(outputs_.begin(), outputs_.end(),
                                  [&](const auto& output) { return output->number() == number; });
  if (found == outputs_.end()) return nullptr;
  std::unique_ptr<Output> taken = std::move(*found);
  outputs_.erase(found);
  if (joining_ == taken.get()) joining_ = nullptr;
  if (freezing_ == taken.get()) freezing_ = nullptr;
  if (outputs_.empty()) label_sets_.clear();
  return taken;
}

void Outputs::deliver(const LossRun& lost) {
  for (const auto& output : outputs_) output->note_lost(lost);
}

void Outputs::deliver(const std::vector<DeviceSample>& samples) {
  for (const DeviceSample& sample : samples) {
    for (const auto& output : outputs_) output->take(sample);
  }
}

void Outputs::annotate(const Annotation& annotation, const std::string& name) {
  for (const auto& output : outputs_) output->take(annotation, name);
}

void Outputs::mark_phase(PhaseMark::Kind kind, std::uint32_t number) {
  for (const auto& output : outputs_) output->mark_phase(kind, number);
}

void Outputs::note_pause() {
  for (const auto& output : outputs_) output->note_pause();
}

void Outputs::add_facts(const Facts& facts) {
  for (const auto& output : outputs_) output->add_facts(facts);
}

void Outputs::flush() {
  for (const auto& output : outputs_) output->flush();
}

std::uint64_t Outputs::close_all(std::string_view reason, std::uint64_t undecided) {
  std::uint64_t events = 0;
  while (!outputs_.empty()) {
    const std::unique_ptr<Output> output = take(outputs_.front()->number());
    events += output->close(reason, undecided).events;
  }
  return events;
}

void Outputs::give_up(std::string_view reason) {
  for (const auto& output : outputs_) output->give_up(reason);
}

void Outputs::define_labels(LabelSetNumber set, std::vector<StorageLabel> labels) {
  label_sets_.insert_or_assign(set, std::move(labels));
}

void Outputs::move_labels(LabelSetNumber set, LabelSetNumber to,
                          const std::vector<std::uint64_t>& addresses) {
  const auto found = label_sets_.find(set);
  if (found == label_sets_.end()) return;
  std::vector<StorageLabel> labels = std::move(found->second);
  forget_labels(set);
  if (labels.size() != addresses.size()) return;
  for (std::size_t row = 0; row < labels.size(); ++row) labels[row].address = addresses[row];
  define_labels(to, std::move(labels));
}

void Outputs::apply_labels(LabelSetNumber set) {
  const auto found = label_sets_.find(set);
  if (found == label_sets_.end()) return;
  for (const auto& output : outputs_) output->apply_labels(set, found->second);
}

void Outputs::forget_labels(LabelSetNumber set) {
  label_sets_.erase(set);
  for (const auto& output : outputs_) output->forget_labels(set);
}

void Outputs::describe_modules(const std::vector<ModuleDescription>& modules,
                               const std::vector<std::uint32_t>& numbers) {
  for (const auto& output : outputs_) output->describe_modules(modules, numbers);
}

void Outputs::begin_join(RecordingNumber number) {
  joining_ = find(number);
  next_to_join_ = 0;
  if (joining_ != nullptr) joining_->begin_join();
}

void Outputs::begin_self_test(RecordingNumber number) {
  freezing_ = find(number);
  next_to_freeze_ = 0;
}

void Outputs::take_snapshot() {
  // torch reports device 0 whatever the device; the order identifies it.
  if (joining_ != nullptr) joining_->join(next_to_join_++);
  if (freezing_ != nullptr) freezing_->freeze_self_test(next_to_freeze_++);
}

}  // namespace gpumemprof::capture
