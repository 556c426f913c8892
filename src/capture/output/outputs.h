// Outputs: the open recordings, and everything that goes to all of them: events, losses,
// annotations, samples, labels, modules.
//
// For the drain thread alone.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "capture/output/output.h"
#include "capture/stacks/stack_mirror.h"

namespace gpumemprof::capture {

class Outputs {
 public:
  // Recordings are added in the order of their numbers.
  void add(std::unique_ptr<Output> output);
  [[nodiscard]] Output* find(RecordingNumber number);
  std::unique_ptr<Output> take(RecordingNumber number);
  // Returns how many events they have.
  std::uint64_t close_all(std::string_view reason, std::uint64_t undecided);
  [[nodiscard]] bool empty() const { return outputs_.empty(); }
  // The last one added, open or not.
  [[nodiscard]] RecordingNumber newest() const { return newest_; }

  void deliver(const DrainedEvent& event, const StackMirror& mirror) {
    for (const auto& output : outputs_) output->take(event, mirror, tags_);
  }
  void deliver(const LossRun& lost);
  void deliver(const std::vector<DeviceSample>& samples);
  void annotate(const Annotation& annotation, const std::string& name);
  void mark_phase(PhaseMark::Kind kind, std::uint32_t number);
  void note_pause();
  void add_facts(const Facts& facts);
  void flush();
  void give_up(std::string_view reason);

  // The name of the next tag; tags are numbered from 1 on.
  void add_tag(std::string name) { tags_.push_back(std::move(name)); }
  void define_labels(LabelSetNumber set, std::vector<StorageLabel> labels);
  void move_labels(LabelSetNumber set, LabelSetNumber to,
                   const std::vector<std::uint64_t>& addresses);
  void apply_labels(LabelSetNumber set);
  void forget_labels(LabelSetNumber set);
  void describe_modules(const std::vector<ModuleDescription>& modules,
                        const std::vector<std::uint32_t>& numbers);

  // torch is about to list its devices, for a recording that joins or for the self-test. Each
  // snapshot event that follows is one device, in device order.
  void begin_join(RecordingNumber number);
  void end_join() { joining_ = nullptr; }
  void begin_self_test(RecordingNumber number);
  void end_freezing() { freezing_ = nullptr; }
  void take_snapshot();

 private:
  std::vector<std::unique_ptr<Output>> outputs_;
  RecordingNumber newest_ = 0;
  std::vector<std::string> tags_ = {""};  // by number; 0: no tag
  std::map<LabelSetNumber, std::vector<StorageLabel>> label_sets_;
  Output* joining_ = nullptr;
  DeviceSlot next_to_join_ = 0;
  Output* freezing_ = nullptr;
  DeviceSlot next_to_freeze_ = 0;
};

}  // namespace gpumemprof::capture
