// Chapters: what an Output needs in order to end a chapter and begin the next one without losing an
// event: what is live, what is said about it, and the folder they go to.
//
// For the drain thread alone, except for what the caller does before handing the Output over.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/flat_map.h"
#include "base/interner.h"
#include "capture/capture.h"
#include "capture/device_slot.h"
#include "capture/output/chapters/chapter_shelf.h"
#include "capture/output/chapters/live_device.h"
#include "capture/output/drained_event.h"
#include "capture/output/file_ids.h"
#include "trace/writer.h"

namespace gpumemprof::capture {

class Chapters {
 public:
  Chapters(std::unique_ptr<ChapterShelf> shelf, MemoryKind memory)
      : shelf_(std::move(shelf)), memory_(memory) {}

  [[nodiscard]] ChapterShelf& shelf() { return *shelf_; }
  [[nodiscard]] std::uint32_t number() const { return number_; }

  void set_settings(const AllocatorSettings& settings);
  [[nodiscard]] const AllocatorSettings& settings() const { return settings_; }
  // CUDA: nothing is known until the state has been listed.
  void begin_join();
  void begin(DeviceSlot slot);
  void add_start(const std::vector<ListedSegment>& segments);
  // An event of the file; `row` is what was written of it.
  void take(const DrainedEvent& event, std::int64_t time_ns);
  void note_loss() { is_exact_ = false; }
  void mark(PhaseMark::Kind kind, std::uint32_t number);
  void label(LabelSetNumber set, const std::vector<StorageLabel>& labels);
  void forget_labels(LabelSetNumber set) { set_names_.erase(set); }
  void describe(const std::vector<ModuleDescription>& modules,
                const std::vector<std::uint32_t>& numbers);

  // Whether the chapter that is being written has become long enough.
  [[nodiscard]] bool is_full(std::uint64_t size_bytes, std::int64_t time_ns) const;
  // The next chapter's first events follow. Writes what is live, and what was said about it.
  void begin_next(TraceWriter& writer, FileIds& ids, const StackMirror& mirror,
                  const std::vector<std::string>& tags, std::vector<ChapterDevice> before);
  // Whether the chapter has been written as far as its start.
  void note_started(std::uint64_t size_bytes) { start_bytes_ = size_bytes; }
  // A chapter was closed. Fails if the folder cannot be written to.
  Status end(std::uint64_t size_bytes);

 private:
  struct Described {
    ModuleDescription module;
    std::uint32_t number = kNoModule;
  };

  LiveDevice& device(DeviceSlot slot);
  template <typename Visit>
  void for_each_device(const Visit& visit) {
    for (std::size_t slot = 0; slot < devices_.size(); ++slot)
      if (devices_[slot]) visit(static_cast<DeviceSlot>(slot), *devices_[slot]);
  }
  std::uint32_t stream_row(std::uint64_t handle);
  std::uint32_t pool_row(PoolId pool);
  // Leaves out the names that nothing live has.
  void shorten_names();
  void write_start(DeviceSlot slot, const LiveDevice& live, TraceWriter& writer, FileIds& ids,
                   const StackMirror& mirror, const std::vector<std::string>& tags,
                   ChapterStart& start);
  void write_labels(DeviceSlot slot, const ListedState& state, const LiveDevice& live,
                    TraceWriter& writer, ChapterStart& start);

  std::unique_ptr<ChapterShelf> shelf_;
  MemoryKind memory_;
  std::uint32_t number_ = 1;
  AllocatorSettings settings_;
  bool is_exact_ = true;
  std::array<std::unique_ptr<LiveDevice>, kDeviceSlots> devices_;
  std::vector<std::uint64_t> streams_;
  FlatMap<std::uint32_t> stream_rows_;
  std::vector<PoolId> pools_;
  std::map<PoolId, std::uint32_t> pool_rows_;
  std::unique_ptr<Interner> names_ = std::make_unique<Interner>();
  std::map<LabelSetNumber, std::vector<StringId>> set_names_;
  std::map<std::uint32_t, Described> described_;               // by number
  std::map<std::string, Described> described_without_number_;  // by path and class
  std::uint64_t events_ = 0;                                   // of this chapter
  std::uint64_t start_bytes_ = 0;
  std::int64_t first_time_ns_ = kUnknownTime;
  std::int64_t last_time_ns_ = kUnknownTime;
};

}  // namespace gpumemprof::capture
