// Output: one recording being written: which events belong in it, and their ids in its file.
//
// For the drain thread alone, except for what the caller does before handing it over.
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/flat_map.h"
#include "capture/capture.h"
#include "capture/record.h"
#include "capture/stacks/stack_mirror.h"
#include "capture/stream/losses.h"
#include "capture/stream/self_test.h"
#include "trace/writer.h"

namespace gpumemprof::capture {

// An event as the drain interpreted it; ids are the mirror's.
struct DrainedEvent {
  Action action = Action::other;
  std::uint8_t device = 0;
  std::uint16_t tag = 0;
  bool is_inferred = false;  // nobody saw it: another event shows that it must have happened
  std::int64_t time_ns = 0;
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;
  std::uint64_t stream = 0;
  PoolId pool;
  StackId stack;
  StackId forward_stack;
  std::uint32_t module = kNoModule;
};

// Events of one device that never reached the drain.
struct Lost {
  std::uint8_t device = 0;
  Epoch epoch = 0;
  EventCounts counts;
  std::int64_t first_time_ns = kUnknownTime;
  std::int64_t last_time_ns = kUnknownTime;
};

// Whether a recording has seen an allocation yet, for callers that wait for one.
class FirstAllocation {
 public:
  void come();
  // The recording ends: no allocation will come any more.
  void end();
  // False: none came within that time, or none will.
  bool wait(std::chrono::milliseconds most);

 private:
  std::mutex mutex_;
  std::condition_variable wakes_;
  bool is_there_ = false;
  bool is_over_ = false;
};

class Output {
 public:
  Output(RecordingNumber number, std::unique_ptr<TraceWriter> writer, const StartOptions& options,
         Origin origin, std::shared_ptr<FirstAllocation> first_allocation);

  [[nodiscard]] RecordingNumber number() const { return number_; }
  [[nodiscard]] MemoryKind memory() const { return memory_; }
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
  void note_lost(const Lost& lost);
  // Callbacks were off, or are from now on: what is missed meanwhile is not even counted.
  void note_pause();
  void apply_labels(LabelSetNumber set, const std::vector<StorageLabel>& labels);
  void forget_labels(LabelSetNumber set) { label_sets_.erase(set); }
  void mark_phase(PhaseMark::Kind kind, std::uint32_t number);
  // `numbers` are the mirror's own, kNoModule for a module that was not called yet.
  void describe_modules(const std::vector<ModuleDescription>& modules,
                        const std::vector<std::uint32_t>& numbers);

  // CUDA: events count from the moment the state was listed. begin_join() discards an earlier join.
  void begin_join();
  void join(std::uint8_t device);
  void add_start(const std::vector<ListedSegment>& segments);
  // The self-test: torch lists the devices, one after the other, then everything listed is
  // compared.
  void freeze_self_test(std::uint8_t device);
  void end_self_test(bool has_passed);
  SelfTestResult finish_self_test(const std::vector<ListedSegment>& segments);
  void set_settings(const AllocatorSettings& settings) { writer_->set_settings(settings); }
  void add_facts(const Facts& facts);

  // Nothing more is recorded; the file keeps what it has.
  void give_up(std::string_view reason);
  void flush();
  // `undecided`: as for begin(), but now.
  Summary close(std::string_view reason, std::uint64_t undecided);

 private:
  struct Device {
    EventColumns events;
    std::uint64_t rows = 0;
    std::int64_t last_time_ns = kUnknownTime;
    bool is_joined = false;
    std::int64_t requested_bytes = 0;
    std::int64_t peak_requested_bytes = 0;
    EventCounts made;
    std::vector<std::uint64_t> inferred_rows;  // frees that nobody saw
    std::optional<LostEvents> open_loss;       // still growing
  };

  // A set of labels as stored in the file: a row for each device, more if there are very many.
  struct WrittenSet {
    std::uint8_t device = 0;
    std::uint32_t row = 0;
  };

  Device& device(std::uint8_t number);
  // Whether its events are in this file.
  [[nodiscard]] bool is_recorded(std::uint8_t device) const;
  std::vector<WrittenSet> write_set(const std::vector<StorageLabel>& labels);
  // The device's number in the file.
  [[nodiscard]] DeviceIndex index_of(std::uint8_t device) const;
  // Whether the event is one of this recording's.
  bool admit(const DrainedEvent& event, Device& mine);
  void count(const DrainedEvent& event, Device& mine);
  void write_lost_events(Device& mine);
  void hand_over(std::uint8_t number, Device& device);
  [[nodiscard]] DeviceCounts counts_of(std::uint8_t number, const Device& mine) const;
  [[nodiscard]] Ending ending(std::string_view reason, std::uint64_t undecided) const;
  void keep_problem(const Status& status);
  // Frames around a program that was started through us, which say nothing about it.
  static bool only_starts_the_program(const Frame& frame, const StackMirror& mirror);
  StackId stack_of(StackId id, const StackMirror& mirror);
  StringId string_of(StringId id, const StackMirror& mirror);
  // The mirror's number, once the file defines what it stands for.
  std::uint32_t module_of(std::uint32_t number, const StackMirror& mirror);
  StringId tag_of(std::uint16_t tag, const std::vector<std::string>& tags);
  std::uint32_t stream_of(std::uint64_t handle);
  std::uint32_t pool_of(PoolId pool);

  RecordingNumber number_;
  std::unique_ptr<TraceWriter> writer_;
  std::string path_;
  MemoryKind memory_;
  bool has_stacks_;
  Origin origin_;
  std::shared_ptr<FirstAllocation> first_allocation_;
  bool has_allocated_ = false;
  std::optional<SelfTest> self_test_;  // until the self-test is over
  std::array<std::unique_ptr<Device>, kDeviceSlots> devices_;
  std::vector<StackId> stacks_;    // by the mirror's id
  std::vector<StringId> strings_;  // by the mirror's id
  std::vector<StringId> tags_;
  std::vector<bool> has_module_;  // by the mirror's number: the file defines what it stands for
  std::set<ModuleLabel> described_;
  FlatMap<std::uint32_t> streams_;
  FlatMap<std::uint32_t> pools_;
  std::map<LabelSetNumber, std::vector<WrittenSet>> label_sets_;
  FlatMap<std::uint8_t> live_;  // CPU: addresses whose allocation is in this file
  Epoch epoch_ = 0;
  std::uint64_t undecided_before_ = 0;
  bool was_paused_ = false;
  bool are_counts_exact_ = true;
  std::optional<Error> problem_;
};

}  // namespace gpumemprof::capture
