// Output: one recording being written: which events belong in it, and their ids in its file.
//
// For the drain thread alone, except for what the caller does before handing it over.
#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "capture/capture.h"
#include "capture/device_slot.h"
#include "capture/output/chapters/chapters.h"
#include "capture/output/drained_event.h"
#include "capture/output/file_ids.h"
#include "capture/output/first_allocation.h"
#include "capture/output/self_test.h"
#include "capture/stacks/stack_mirror.h"
#include "trace/writer.h"

namespace gpumemprof::capture {

class Output {
 public:
  // `chapters`: null for a recording that is one file.
  Output(RecordingNumber number, std::unique_ptr<TraceWriter> writer,
         std::unique_ptr<Chapters> chapters, const StartOptions& options, Origin origin,
         std::shared_ptr<FirstAllocation> first_allocation);

  [[nodiscard]] RecordingNumber number() const { return number_; }
  [[nodiscard]] MemoryKind memory() const { return memory_; }
  // As of the last flush.
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] bool has_failed() const { return problem_.has_value(); }
  // Where the recording begins relative to losses: the epoch, and how many losses were undecided
  // before.
  void begin(Epoch epoch, std::uint64_t undecided) {
    epoch_ = epoch;
    undecided_before_ = undecided;
  }

  void take(const DrainedEvent& event, const StackMirror& mirror,
            const std::vector<std::string>& tags);
  void take(const Annotation& annotation, std::string_view name);
  void take(const DeviceSample& sample);
  void note_lost(const LossRun& lost);
  // Callbacks were off, or are from now on: what is missed meanwhile is not even counted.
  void note_pause();
  void apply_labels(LabelSetNumber set, const std::vector<StorageLabel>& labels);
  void forget_labels(LabelSetNumber set) {
    label_sets_.erase(set);
    if (chapters_) chapters_->forget_labels(set);
  }
  void mark_phase(PhaseMark::Kind kind, std::uint32_t number);
  void describe_modules(const std::vector<ModuleDescription>& modules,
                        const std::vector<std::uint32_t>& numbers) {
    ids_->describe_modules(modules, numbers);
    if (chapters_) chapters_->describe(modules, numbers);
  }

  // CUDA: events count from the moment the state was listed. begin_join() discards an earlier join.
  void begin_join();
  void join(DeviceSlot device);
  void add_start(const std::vector<ListedSegment>& segments);
  // The self-test: torch lists the devices, one after the other, then everything listed is
  // compared.
  void freeze_self_test(DeviceSlot device);
  void end_self_test(bool has_passed);
  SelfTestResult finish_self_test(const std::vector<ListedSegment>& segments);
  void set_settings(const AllocatorSettings& settings) {
    writer_->set_settings(settings);
    if (chapters_) chapters_->set_settings(settings);
  }
  void add_facts(const Facts& facts);

  // Nothing more is recorded; the file keeps what it has.
  void give_up(std::string_view reason);
  void flush();
  // `undecided`: as for begin(), but now.
  Summary close(std::string_view reason, std::uint64_t undecided);

 private:
  struct Device {
    EventColumns events;
    std::uint64_t rows = 0;          // in this file
    std::uint64_t earlier_rows = 0;  // in the chapters before it
    EventCounts earlier_made;
    EventCounts earlier_lost;
    std::int64_t last_time_ns = kUnknownTime;
    bool is_joined = false;
    std::int64_t requested_bytes = 0;
    std::int64_t peak_requested_bytes = 0;
    void add_requested(std::int64_t bytes) {
      requested_bytes += bytes;
      peak_requested_bytes = std::max(peak_requested_bytes, requested_bytes);
    }
    EventCounts made;
    std::vector<std::uint64_t> inferred_rows;  // frees that were not seen
    std::optional<LostEvents> open_loss;       // still growing
  };

  // A set of labels as stored in the file: a row for each device, more if there are very many.
  struct WrittenSet {
    DeviceSlot device = 0;
    std::uint32_t row = 0;
  };

  Device& device(DeviceSlot slot);
  // Whether its events are in this file.
  [[nodiscard]] bool is_recorded(DeviceSlot device) const;
  // Those that have a slot here, in the order of their slots.
  template <typename Visit>
  void for_each_device(const Visit& visit) const {
    for (std::size_t slot = 0; slot < devices_.size(); ++slot)
      if (devices_[slot]) visit(static_cast<DeviceSlot>(slot), *devices_[slot]);
  }
  std::vector<WrittenSet> write_set(const std::vector<StorageLabel>& labels);
  // Whether the event is one of this recording's.
  [[nodiscard]] bool admit(const DrainedEvent& event, const Device& mine) const;
  void count(const DrainedEvent& event, Device& mine);
  void write_early_marks();
  void write_lost_events(Device& mine);
  void hand_over(DeviceSlot slot, Device& mine);
  [[nodiscard]] DeviceCounts counts_of(DeviceSlot slot, const Device& mine) const;
  [[nodiscard]] Ending ending(std::string_view reason, std::uint64_t undecided) const;
  void keep_problem(const Status& status);
  // The writer may have taken another name than its own.
  void note_name();
  // Ends this chapter and begins the next.
  void turn_page(const StackMirror& mirror, const std::vector<std::string>& tags);
  [[nodiscard]] std::vector<ChapterDevice> until_now();

  RecordingNumber number_;
  std::unique_ptr<TraceWriter> writer_;
  std::optional<FileIds> ids_;
  std::unique_ptr<Chapters> chapters_;  // null: one file
  std::uint64_t earlier_events_ = 0;    // in the chapters before
  // Of main memory, before its first event: that of CUDA devices is listed when they join.
  std::vector<std::pair<PhaseMark::Kind, std::uint32_t>> early_marks_;
  std::string path_;
  MemoryKind memory_;
  bool has_stacks_;
  bool has_native_stacks_;
  Origin origin_;
  std::shared_ptr<FirstAllocation> first_allocation_;
  bool has_allocated_ = false;
  std::optional<SelfTest> self_test_;  // until the self-test is over
  std::array<std::unique_ptr<Device>, kDeviceSlots> devices_;
  std::map<LabelSetNumber, std::vector<WrittenSet>> label_sets_;
  Epoch epoch_ = 0;
  std::uint64_t undecided_before_ = 0;
  bool was_paused_ = false;
  bool are_counts_exact_ = true;
  std::optional<Error> problem_;
};

}  // namespace gpumemprof::capture
