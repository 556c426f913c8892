// What a recording holds besides its events: frames, segments and blocks as the allocator listed
// them at the start or the end, annotations, samples of the whole card, and where it all came from.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "event/chapter_figures.h"
#include "event/event.h"

namespace gpumemprof {

struct Frame {
  StringId name;
  StringId file;
  std::uint32_t line = 0;
  constexpr auto operator<=>(const Frame&) const = default;
};

enum class BlockStateKind : std::uint8_t { inactive, active_allocated, active_pending_free };

struct BlockState {
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;
  std::uint64_t requested_bytes = 0;  // meaningless for inactive blocks
  BlockStateKind state = BlockStateKind::inactive;
  StackId stack;
};

// One plain segment, or one contiguous mapped run of an expandable one.
struct SegmentState {
  DeviceIndex device = 0;
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;
  std::uint32_t stream = 0;
  std::uint32_t pool = kNoPool;
  bool is_small = false;
  bool is_expandable = false;
  StackId stack;
};

// The state of the allocator is listed before the first event (a live recording) or after the last
// (a snapshot).
enum class StateEdge : std::uint8_t { start, end };

// Events by kind; the total is the number of events.
struct EventCounts {
  std::uint64_t allocations = 0;
  std::uint64_t frees = 0;   // requested
  std::uint64_t others = 0;  // completions of frees, segments, out of memory

  [[nodiscard]] std::uint64_t total() const { return allocations + frees + others; }
  void add(Action action, std::uint64_t count = 1) {
    if (action == Action::alloc) {
      allocations += count;
    } else if (action == Action::free_requested) {
      frees += count;
    } else {
      others += count;
    }
  }
  EventCounts& operator+=(const EventCounts& other) {
    allocations += other.allocations;
    frees += other.frees;
    others += other.others;
    return *this;
  }
  bool operator==(const EventCounts&) const = default;
};

// Events were lost here: the recorder could not keep up.
struct LostEvents {
  DeviceIndex device = 0;
  std::uint32_t before_event = 0;             // row of the device's next event that was kept
  std::uint64_t count = 0;                    // kUnknownCount: recording was paused
  std::uint32_t end_event = 0;                // the next event after the last one that was lost
  std::int64_t first_time_ns = kUnknownTime;  // unknown: since before the device's first event
  std::int64_t last_time_ns = kUnknownTime;
  std::uint64_t allocations = 0;
  std::uint64_t frees = 0;
  // Chapters of a long recording are missing here, and the rows before `end_event` lead from the
  // state before them to the state after them; if that is known, figures after it are exact. Not in
  // a file.
  bool is_of_chapters = false;
  bool is_bridged = false;

  static constexpr std::uint64_t kUnknownCount = kUnknownBytes;
};

// How the recording of a device ended: made = recorded + lost.
struct DeviceCounts {
  DeviceIndex device = 0;
  EventCounts made;
  EventCounts lost;
  // Frees in the file that nobody saw: another allocation took the address.
  std::uint64_t inferred_frees = 0;
};

// Kinds of Origin that mean something to a reader.
inline constexpr std::string_view kLiveRun = "live";
inline constexpr std::string_view kSimulatedRun = "simulated";  // recorded requests, other settings
inline constexpr std::string_view kPredictedRun = "predicted";  // no GPU was used

// The reason that means "the process was killed, or is still writing".
inline constexpr std::string_view kNotClosed = "not closed";

// How a recording ended, as its own file states.
struct Ending {
  bool is_closed = false;  // false: the process was killed, or is still writing
  std::string reason;      // "exit", "stop", "exception: ValueError"
  std::string problem;     // why it stopped before that: "the disk is full"; empty if it did not
  bool has_counts = false;
  bool are_counts_exact = true;
  std::vector<DeviceCounts> devices;
};

// The whole card, seen from outside the pool, at one moment. kUnknownBytes for what could not be
// queried.
struct DeviceSample {
  DeviceIndex device = 0;
  std::int64_t time_ns = kUnknownTime;
  std::uint64_t total_bytes = kUnknownBytes;
  std::uint64_t used_bytes = kUnknownBytes;     // by all processes, without what the firmware keeps
  std::uint64_t process_bytes = kUnknownBytes;  // by this process
  std::uint64_t other_processes_bytes = kUnknownBytes;
  std::uint64_t firmware_bytes = kUnknownBytes;
  std::uint32_t before_event = kNoEvent;  // the device's next event; kNoEvent: time only
  std::uint8_t libraries = 0;             // that the process had started using by then, of these:

  static constexpr std::uint8_t kCudnn = 1;
  static constexpr std::uint8_t kCusolver = 2;
  static constexpr std::uint8_t kNccl = 4;
};

struct Annotation {
  enum class Stage : std::uint8_t { start, end };
  StringId name;
  Stage stage = Stage::start;
  DeviceIndex device = 0;
  std::int64_t time_ns = kUnknownTime;
};

// Why a file ended early.
struct CutPoint {
  std::uint64_t byte_offset = 0;  // in the uncompressed stream
  std::string reason;
};

struct Origin {
  std::string kind;                  // "torch_snapshot"
  std::string device_type = "cuda";  // as in "cuda:0"
  bool has_segments = false;         // the state at the end is known
  bool has_start = false;            // the state at the start is known (and may be empty)
  bool has_traces = false;           // a history was recorded, even if empty
  std::optional<CutPoint> cut;
  std::optional<Ending> ending;  // for recordings; snapshots do not have it
  std::vector<std::pair<std::string, std::string>> settings;  // as the file states them, for people
  std::vector<std::pair<std::string, std::string>>
      facts;  // versions, host, rank, command line: whatever is known
  // Of a folder of chapters, in order; not in a file.
  std::vector<ChapterFigures> chapters;
  std::vector<StepSummary> steps;
};

}  // namespace gpumemprof
