// ChapterJoin: the chapters of a long recording, one after the other → one stream of events.
//
// Positions are counted from the first chapter on. The state that a chapter begins with is known
// already if it follows the one before it, and is left out. Where chapters are missing, a few
// events lead from the state before them to the state after them, so that every figure after the
// gap is exact again:
//
//   free_requested, free_completed     what is no longer live
//   segment_free, segment_unmap        and memory that the pool returned
//   segment_alloc, segment_map         memory that it took
//   placed, alloc                      what is live now: the size of its block, then the block
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/flat_map.h"
#include "event/sinks/forwarding_sink.h"

namespace gpumemprof {

class ChapterJoin final : public ForwardingSink {
 public:
  // The sink must outlive this.
  explicit ChapterJoin(EventSink& sink) : ForwardingSink(sink) {}

  // The next chapter is about to be delivered.
  void begin(std::uint32_t number);
  // It was, as far as it goes; without an ending, or cut off, it may lack its last events.
  void end(const std::optional<Ending>& ending, bool is_cut);
  // After the last chapter: what is known about all of them, and where one was cut off.
  void finish(std::vector<ChapterFigures> chapters, std::vector<StepSummary> steps,
              std::optional<CutPoint> cut);

  // The state that this chapter begins with has been compared with what came before.
  [[nodiscard]] bool is_resolved() const { return is_resolved_; }
  // The last chapter that began with the state it lists: a join that begins with it knows all that
  // this one does.
  [[nodiscard]] std::uint32_t known_from() const { return known_from_; }
  // Delivered so far, of the device that has most.
  [[nodiscard]] std::uint64_t most_rows() const;

  void add_events(DeviceIndex index, EventColumns&& events) override;
  void add_segment(StateEdge edge, const SegmentState& segment,
                   std::span<const BlockState> blocks) override;
  void add_lost_events(const LostEvents& lost) override;
  void add_sample(const DeviceSample& sample) override;
  std::uint32_t add_label_set(std::span<const Label> labels) override;
  void add_labelling(const Labelling& labelling) override;
  void add_phase_mark(const PhaseMark& mark) override;
  void add_module(const ModuleLabel& module) override;
  void set_origin(const Origin& origin) override;
  void add_chapter_start(const ChapterStart& start) override;

 private:
  struct Live {
    std::uint64_t requested_bytes = 0;
    std::int64_t time_ns = kUnknownTime;
    std::uint32_t stream = 0;
    bool is_pending = false;  // freed, but a stream still uses it
  };
  struct Reserved {
    std::uint64_t size_bytes = 0;
    bool is_expandable = false;
    std::uint32_t stream = 0;
    std::uint32_t pool = kNoPool;
    StackId stack;
  };
  struct Device {
    std::uint64_t rows = 0;  // delivered so far, with those that bridge gaps
    std::uint64_t base = 0;  // of them, before this chapter's first event
    EventCounts made;        // until the end of the last chapter
    EventCounts lost;        // of these, never written
    std::uint64_t inferred_frees = 0;
    EventCounts seen;  // rows of this chapter
    std::int64_t last_time_ns = kUnknownTime;
    FlatMap<Live> live;
    std::map<std::uint64_t, Reserved> reserved;  // by address
  };
  struct ListedSegment {
    SegmentState segment;
    std::vector<BlockState> blocks;
  };
  struct Listed {
    const SegmentState* segment = nullptr;
    const BlockState* block = nullptr;
    const LiveAllocation* live = nullptr;  // null if the file does not say
  };
  using ListedBlocks = std::map<std::uint64_t, Listed>;  // in use, by address

  void resolve(const ChapterStart& start);
  [[nodiscard]] ListedBlocks listed_of(DeviceIndex index, const ChapterStart& start) const;
  [[nodiscard]] static bool is_same(const Device& device, const ListedBlocks& listed);
  [[nodiscard]] static bool is_same_in_all(const Device& device, const ListedBlocks& listed);
  void take_listed(Device& device, DeviceIndex index, const ListedBlocks& listed);
  // Whether what is known is what the chapter lists.
  bool bridge(DeviceIndex index, const ChapterStart& start, bool is_following);
  [[nodiscard]] EventColumns bridging_events(const Device& device, DeviceIndex index,
                                             const ListedBlocks& listed,
                                             std::int64_t time_ns) const;
  void add_reserved_changes(const Device& device, DeviceIndex index, std::int64_t time_ns,
                            EventColumns& events) const;
  void follow(Device& device, const EventColumns& events) const;
  static void unmap(Device& device, std::uint64_t address, std::uint64_t size_bytes);
  static void take_live(Device& device, const Listed& one);
  void take_reserved(Device& device, const SegmentState& segment) const;
  [[nodiscard]] std::uint32_t shifted(DeviceIndex index, std::uint32_t row);

  std::map<DeviceIndex, Device> devices_;
  std::vector<ListedSegment> listed_;  // the state that the chapter begins with
  Origin origin_;
  bool has_pool_ = true;
  bool has_start_ = true;     // the state before the first chapter is known
  std::uint32_t number_ = 0;  // of this chapter
  bool is_resolved_ = true;   // its start has been compared with what came before
  bool is_first_ = true;      // nothing has been delivered before it
  bool drops_repeated_ = false;
  bool was_whole_ = false;  // the chapter before it
  std::uint32_t previous_ = 0;
  std::uint32_t known_from_ = 0;
  std::uint32_t sets_ = 0;  // in this chapter
  ChapterStart start_;
  bool has_counts_ = true;
  bool are_counts_exact_ = true;
  std::map<std::uint32_t, ModuleLabel> modules_;        // by number
  std::map<ModuleLabel, bool> modules_without_number_;  // that were passed on
};

}  // namespace gpumemprof
