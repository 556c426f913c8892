// Checkpoint: the state of one device between two events, so that the run can be read from there on
// as if it began there.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analysis/sources/sources.h"
#include "analysis/timeline/overlays.h"
#include "analysis/timeline/pyramid.h"
#include "windows/kept_run.h"

namespace gpumemprof {

// An allocation that was in use then: what replay and the analyses of the whole run know about it.
struct OldAllocation {
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;
  std::uint64_t requested_bytes = 0;
  std::uint32_t birth_event = kNoEvent;  // kNoEvent: it is older than the recording
  bool is_pending = false;               // freed, but a stream still uses it
  std::uint32_t stream = 0;
  StackId stack;
  // As its event said; unknown if it is older than the recording.
  std::int64_t time_ns = kUnknownTime;
  StringId compile_context;
  StringId user_metadata;
  std::uint32_t pool = kNoPool;
  StackId forward_stack;
  std::uint32_t module = kNoModule;
  MemorySource source = MemorySource::unknown;
  std::uint8_t flags = 0;  // as in AllocationLabels
  StringId name;
  bool operator==(const OldAllocation&) const = default;
};

struct DeviceCheckpoint {
  DeviceIndex device = 0;
  std::uint32_t number = 0;                // of the checkpoint
  std::uint32_t event = 0;                 // the first one after it
  std::vector<SegmentState> segments;      // and pieces of expandable ones, in order of address
  std::vector<OldAllocation> allocations;  // in order of birth
  std::vector<PhaseSpan> spans;            // of the events since the checkpoint before
};

// The state before event `event` of the run, which the view holds; spans are not filled.
DeviceCheckpoint checkpoint_before(const KeptRun& run, const LocalView& view, std::uint32_t event);

// Takes what an index holds besides the report, while the second pass finds it.
class IndexTaker {
 public:
  IndexTaker() = default;
  IndexTaker(const IndexTaker&) = delete;
  IndexTaker& operator=(const IndexTaker&) = delete;
  virtual ~IndexTaker() = default;

  // Where a checkpoint may be: before the first event, at the block that is being delivered, after
  // the last event.
  enum class Spot : std::uint8_t { start, here, end };
  // True: one is made there.
  virtual bool wants_checkpoint(Spot spot) = 0;
  // A device's part of it; each device gets one part of each checkpoint, in order.
  virtual void add_checkpoint(const DeviceCheckpoint& checkpoint) = 0;
  virtual void add_buckets(DeviceIndex device, std::span<const PyramidBucket> buckets) = 0;
  // Of an allocation that failed; the first few, in order.
  virtual void add_failure(DeviceIndex /*device*/, const OverlayOom& /*failure*/) {}
};

}  // namespace gpumemprof
