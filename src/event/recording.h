// What a recording holds besides its events: frames, segments and blocks as the allocator listed
// them at the start or the end, annotations, samples of the whole card, and where it all came from.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

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

// Events were lost here: the recorder could not keep up.
struct Gap {
  DeviceIndex device = 0;
  std::uint32_t before_event = 0;  // row of the device's next event that was kept
  std::uint64_t lost_events = 0;
};

// The whole card, seen from outside the pool, at one moment. kUnknownBytes where it could not be
// asked.
struct DeviceSample {
  DeviceIndex device = 0;
  std::int64_t time_ns = kUnknownTime;
  std::uint64_t total_bytes = kUnknownBytes;
  std::uint64_t used_bytes = kUnknownBytes;     // by everyone, without what the firmware keeps
  std::uint64_t process_bytes = kUnknownBytes;  // by this process
  std::uint64_t other_processes_bytes = kUnknownBytes;
  std::uint64_t firmware_bytes = kUnknownBytes;
  std::uint32_t before_event = kNoEvent;  // the device's next event; kNoEvent: only the time tells
  std::uint8_t libraries = 0;             // that the process had taken up by then, of these:

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

// Why a file ended before its end.
struct CutPoint {
  std::uint64_t byte_offset = 0;  // of the uncompressed stream
  std::string reason;
};

struct Origin {
  std::string kind;                  // "torch_snapshot"
  std::string device_type = "cuda";  // as in "cuda:0"
  bool has_segments = false;         // the state at the end is known
  bool has_start = false;            // the state at the start is known (and may be empty)
  bool has_traces = false;           // a history was recorded, be it empty
  std::optional<CutPoint> cut;
  std::vector<std::pair<std::string, std::string>> settings;  // as the file states them, for people
  std::vector<std::pair<std::string, std::string>>
      facts;  // versions, host, rank, command line: whatever is known
};

}  // namespace gpumemprof
