// TraceWriter: a recording → a .gmp file, as it happens.
//
// It is an EventSink, so any EventSource can be written by delivering into it; a live recorder
// keeps adding batches and calls flush() often enough that losing what came since is acceptable.
// What is added is written in whole blocks, at the latest when a block is full: the file is valid
// at every moment, and memory is bounded by one block of events per device and by what is distinct
// (strings, frames, stacks).
//
// The first failure (a full disk, say) is kept: later calls do nothing and status(), flush() and
// close() report it. The file then ends with the last whole block, and with the end block, for
// which space is reserved. One thread at a time. A forked child that inherits a writer cannot write
// with it.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file_sink.h"
#include "event/event_sink.h"

namespace gpumemprof {

namespace trace {
class BlockPacker;
class DefinitionTable;
class EventEncoder;
class LabelEncoder;
class NativeModuleTable;
class OutBytes;
class StateEncoder;
struct Annotations;
}  // namespace trace

struct TraceOptions {
  int compression_level = 1;                // zstd's; 0 stores blocks as they are
  std::size_t events_per_block = 1U << 16;  // at most 1 << 17
  FileSink::Existing existing = FileSink::Existing::refuse;
  // A live recording exists from the start, so that it survives its process.
  FileSink::Appears appears = FileSink::Appears::at_once;
  bool waits_for_events = false;  // no file is created before there is an event to write
  bool makes_folder = false;      // that it is in, if that is not there
  // The file (the folder, if that is made) has the first of these names that is not taken: its own,
  // the second, and from then on with a number: `second.2.gmp`.
  bool takes_free_name = false;
  std::string second_name = {};  // a whole path; empty: none
};

class TraceWriter final : public EventSink {
 public:
  // The file then holds what is known about the recording: kind, device type, facts, settings.
  // set_origin() and set_settings() replace it later.
  static Result<std::unique_ptr<TraceWriter>> open(const std::string& path, const Origin& origin,
                                                   const AllocatorSettings& settings = {},
                                                   const TraceOptions& options = {});
  // Writes what is pending, but does not close the recording: a reader sees that it was not closed.
  ~TraceWriter() override;

  StringId add_string(std::string_view text) override;
  [[nodiscard]] std::string_view text(StringId id) const override;
  FrameId add_frame(const Frame& frame) override;
  StackId add_stack(StackId caller, FrameId frame) override;
  void add_native_module(const NativeModule& module) override;
  std::uint32_t add_stream(std::uint64_t handle) override;
  std::uint32_t add_pool(PoolId pool) override;

  void add_events(DeviceIndex device, EventColumns&& events) override;
  void add_segment(StateEdge edge, const SegmentState& segment,
                   std::span<const BlockState> blocks) override;
  void add_annotation(const Annotation& annotation) override;
  void add_lost_events(const LostEvents& lost) override;
  void add_sample(const DeviceSample& sample) override;
  std::uint32_t add_label_set(std::span<const Label> labels) override;
  void add_labelling(const Labelling& labelling) override;
  void add_phase_mark(const PhaseMark& mark) override;
  void add_module(const ModuleLabel& module) override;
  void set_settings(const AllocatorSettings& settings) override;
  void set_origin(const Origin& origin) override;
  // Once, after the segments of the start and before the first event.
  void add_chapter_start(const ChapterStart& start) override;

  // Like add_events(), for a caller that keeps the columns.
  void append_events(DeviceIndex device, const EventColumns& events);

  // Writes everything pending.
  Status flush();
  // Writes everything pending and how the recording ended ("exit 0", "exception"), and closes the
  // file.
  Status close(std::string_view reason);
  // The same, with what was made and lost. If something failed before, the file says so, provided
  // it can still be written to: space for that is reserved.
  Status close(const Ending& ending);
  [[nodiscard]] Status status() const;
  // How many of a device's events are in the file.
  [[nodiscard]] EventCounts written(DeviceIndex device) const;

  // Of the file as it is named in the end.
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::uint64_t size_bytes() const { return file_ ? file_->size_bytes() : 0; }
  // Events in the file, once it is closed; before that, also those waiting to be written.
  [[nodiscard]] std::uint64_t event_count() const;

 private:
  struct DeviceQueue {
    DeviceIndex device = 0;
    EventColumns events;
    EventCounts written;
  };

  TraceWriter(std::string path, const Origin& origin, const AllocatorSettings& settings,
              const TraceOptions& options);

  DeviceQueue& queue_of(DeviceIndex device);
  template <typename Work>
  void guarded(Work&& work);
  // Does the work unless something failed before, and writes labels out when many are waiting.
  template <typename Work>
  void add_to_labels(Work&& work);
  void take_events(DeviceIndex device, const EventColumns& events);
  void take_segment(StateEdge edge, const SegmentState& segment,
                    std::span<const BlockState> blocks);
  void write_events(DeviceIndex device, const EventColumns& events, std::size_t first,
                    std::size_t count);
  // Packs everything events may refer to; the order in the file is the order of use.
  void pack_context();
  void pack_state(trace::StateEncoder& state, bool is_whole);
  void pack_pending();
  void send();
  Status make_file();
  [[nodiscard]] Result<std::unique_ptr<FileSink>> create_file() const;
  // The name to try after that many were taken; `first` was the first of them.
  [[nodiscard]] std::string next_name(const std::filesystem::path& first, int number) const;
  void write_end(const Ending& ending);
  void fail(Error error);
  [[nodiscard]] Error unknown_reference() const;

  std::string path_;
  std::unique_ptr<FileSink> file_;  // none while it waits for events
  TraceOptions options_;
  Origin origin_;
  AllocatorSettings settings_;
  bool has_new_about_ = true;
  std::unique_ptr<trace::DefinitionTable> definitions_;
  std::unique_ptr<trace::EventEncoder> encoder_;
  std::unique_ptr<trace::BlockPacker> packer_;
  std::unique_ptr<trace::StateEncoder> states_[2];
  std::unique_ptr<trace::Annotations> annotations_;
  std::unique_ptr<trace::LabelEncoder> labels_;
  std::unique_ptr<trace::NativeModuleTable> native_modules_;
  std::unique_ptr<trace::OutBytes> content_;  // of the block being assembled
  std::unique_ptr<trace::OutBytes> packed_;   // whole blocks on their way to the file
  std::vector<std::unique_ptr<DeviceQueue>> queues_;
  std::unique_ptr<ChapterStart> chapter_;  // waiting to be written
  std::uint32_t sent_blocks_ = 0;
  bool has_events_ = false;
  std::optional<Error> failure_;
  bool is_closed_ = false;
};

}  // namespace gpumemprof
