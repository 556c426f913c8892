// Store: a whole recording in memory, as append-only columns. Fed by any EventSource, completed by
// replay.
//
// One thread fills it; afterwards any number may read it.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/interner.h"
#include "event/event_sink.h"
#include "event/facts.h"
#include "store/history.h"
#include "store/stack_trie.h"

namespace gpumemprof {

// The segments listed at one edge of a recording; segment i owns blocks [first_block[i],
// first_block[i + 1]).
struct ListedState {
  std::vector<SegmentState> segments;
  std::vector<std::uint32_t> first_block = {0};
  std::vector<BlockState> blocks;

  [[nodiscard]] std::span<const BlockState> blocks_of(std::size_t segment) const {
    return std::span(blocks).subspan(first_block[segment],
                                     first_block[segment + 1] - first_block[segment]);
  }
};

struct DeviceRecord {
  DeviceIndex device = 0;
  EventColumns events;
  ListedState start_state;
  ListedState final_state;
  std::vector<LostEvents> lost_events;
  std::vector<Labelling> labellings;  // in order of position
  std::vector<PhaseMark> phase_marks;
  // Of an excerpt of a longer run: its first events only restore the state it begins with.
  std::uint32_t lead_in = 0;
  std::optional<bool> starts_expandable;  // what the segment before it was
  std::int64_t run_start_ns = kUnknownTime;
  // Made by replay:
  AllocationColumns allocations;
  SegmentColumns segments;
  // Made by analysis/sources:
  AllocationLabels labels;
  std::vector<PhaseSpan> phases;  // of a part of a run: its events, the steps of the run
};

// Where the times of a device's events are counted from.
inline std::int64_t first_time_of(const DeviceRecord& record) {
  if (record.run_start_ns != kUnknownTime) return record.run_start_ns;
  return record.events.empty() ? kUnknownTime : record.events.time_ns[0];
}

// Whether events are missing, and with them what became of the memory.
inline bool loses_state(const DeviceRecord& record) {
  return std::ranges::any_of(record.lost_events,
                             [](const LostEvents& lost) { return !lost.is_bridged; });
}

class Store final : public EventSink {
 public:
  StringId add_string(std::string_view text) override { return strings_.intern(text); }
  FrameId add_frame(const Frame& frame) override;
  StackId add_stack(StackId caller, FrameId frame) override { return stacks_.add(caller, frame); }
  std::uint32_t add_stream(std::uint64_t handle) override;
  std::uint32_t add_pool(PoolId pool) override;
  void add_events(DeviceIndex device, EventColumns&& events) override;
  void add_segment(StateEdge edge, const SegmentState& segment,
                   std::span<const BlockState> blocks) override;
  void add_annotation(const Annotation& annotation) override { annotations_.push_back(annotation); }
  void add_lost_events(const LostEvents& lost) override {
    device_record(lost.device).lost_events.push_back(lost);
  }
  void add_sample(const DeviceSample& sample) override { samples_.push_back(sample); }
  std::uint32_t add_label_set(std::span<const Label> labels) override;
  void add_labelling(const Labelling& labelling) override {
    device_record(labelling.device).labellings.push_back(labelling);
  }
  void add_phase_mark(const PhaseMark& mark) override {
    device_record(mark.device).phase_marks.push_back(mark);
  }
  void add_module(const ModuleLabel& module) override;
  void set_settings(const AllocatorSettings& settings) override { settings_ = settings; }
  void set_origin(const Origin& origin) override {
    origin_ = origin;
    facts_ = RecordingFacts(origin);
  }
  // The folder of the main script, as analysis/code finds it; files are shown relative to it.
  void set_program_folder(std::string folder) { program_folder_ = std::move(folder); }

  [[nodiscard]] std::string_view text(StringId id) const override {
    return id.is_none() ? "" : strings_.text(id);
  }
  [[nodiscard]] const Interner& strings() const { return strings_; }
  [[nodiscard]] const Frame& frame(FrameId id) const { return frames_[id.index]; }
  [[nodiscard]] const Column<Frame>& frames() const { return frames_; }
  [[nodiscard]] const StackTrie& stacks() const { return stacks_; }
  [[nodiscard]] std::uint64_t stream_handle(std::uint32_t row) const { return streams_[row]; }
  [[nodiscard]] std::size_t stream_count() const { return streams_.size(); }
  [[nodiscard]] PoolId pool(std::uint32_t row) const {
    return row == kNoPool ? PoolId{} : pools_[row];
  }
  [[nodiscard]] std::size_t pool_count() const { return pools_.size(); }
  [[nodiscard]] const std::vector<Annotation>& annotations() const { return annotations_; }
  [[nodiscard]] const std::vector<DeviceSample>& samples() const { return samples_; }
  [[nodiscard]] std::size_t label_set_count() const { return label_sets_.size(); }
  [[nodiscard]] std::span<const Label> label_set(std::uint32_t row) const {
    return labels_.span().subspan(label_sets_[row].first, label_sets_[row].count);
  }
  // For a run that is read part by part: another content for a set, and none for those that are no
  // longer needed.
  void put_label_set(std::uint32_t row, std::span<const Label> labels);
  void keep_label_sets(const std::vector<bool>& is_kept);
  [[nodiscard]] const std::vector<ModuleLabel>& modules() const { return modules_; }
  // The module that events refer to by this number; null if it was not described.
  [[nodiscard]] const ModuleLabel* module(std::uint32_t number) const {
    const bool is_known = number < module_rows_.size() && module_rows_[number] != kNoModule;
    return is_known ? &modules_[module_rows_[number]] : nullptr;
  }
  // Whether events refer to the modules they were made in, and some of those have a path.
  [[nodiscard]] bool has_module_numbers() const { return has_named_modules_; }
  [[nodiscard]] const AllocatorSettings& settings() const { return settings_; }
  [[nodiscard]] const Origin& origin() const { return origin_; }
  [[nodiscard]] const RecordingFacts& facts() const { return facts_; }
  [[nodiscard]] const std::string& program_folder() const { return program_folder_; }

  // In order of device number.
  [[nodiscard]] const std::vector<std::unique_ptr<DeviceRecord>>& devices() const {
    return devices_;
  }
  // Where a device is in devices(), if it is there.
  [[nodiscard]] std::optional<std::size_t> device_row(DeviceIndex device) const;
  [[nodiscard]] std::string device_name(DeviceIndex device) const;
  [[nodiscard]] std::uint64_t event_count() const;

 private:
  DeviceRecord& device_record(DeviceIndex device);

  Interner strings_;
  Column<Frame> frames_;
  FlatMap<std::uint32_t> frames_by_hash_;
  Column<std::uint32_t> next_same_frame_hash_;
  StackTrie stacks_;
  Column<std::uint64_t> streams_;
  FlatMap<std::uint32_t> streams_by_handle_;
  Column<PoolId> pools_;
  std::map<PoolId, std::uint32_t> pool_rows_;
  std::uint32_t last_pool_ = 0;  // most events use the same pool as the one before
  std::vector<std::unique_ptr<DeviceRecord>> devices_;
  std::vector<Annotation> annotations_;
  std::vector<DeviceSample> samples_;
  Column<Label> labels_;
  struct LabelSet {
    std::size_t first = 0;
    std::size_t count = 0;
  };
  std::vector<LabelSet> label_sets_;  // rows of labels_
  std::vector<ModuleLabel> modules_;
  std::vector<std::uint32_t> module_rows_;  // by number; kNoModule: none
  bool has_named_modules_ = false;
  AllocatorSettings settings_;
  Origin origin_;
  RecordingFacts facts_;
  std::string program_folder_;
};

}  // namespace gpumemprof
