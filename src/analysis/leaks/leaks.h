// Leaks: memory that a recording shows to be kept without end, the lines that allocate it, and what
// to change.
//
// Judged is what each line has live at the floor of each step (floor_table.h), not the peak and not
// the total. Rates and lines are measured; what the memory is, what to change and when memory runs
// out are inferred or predicted, and carry their doubt. Bytes are requested bytes unless they say
// otherwise.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/completeness/completeness.h"
#include "analysis/leaks/decide.h"
#include "analysis/leaks/leak_ground.h"
#include "base/result.h"
#include "event/provenance.h"
#include "replay/replay.h"
#include "store/store.h"

namespace gpumemprof {

struct LeaksOptions {
  std::optional<DeviceIndex> device;
  // The memory there is; by default that of the card, as far as the recording knows it.
  std::optional<std::uint64_t> memory_limit_bytes;
  // "train.py:12" or "train.py": lines and files that may grow.
  std::vector<std::string> suppressions;

  // Nothing was asked for but the verdict, which an index holds.
  [[nodiscard]] bool is_plain() const { return !memory_limit_bytes && suppressions.empty(); }
};

// A prediction with its band.
struct StepsLeft {
  double steps = 0;
  double low = 0;
  double high = 0;
  std::uint64_t limit_bytes = 0;
};

struct LeakSite {
  StackId stack;             // that ends at the line of user code; none: no stack was recorded
  bool is_backward = false;  // allocated by the backward of this line
  double bytes_per_step = 0;
  double blocks_per_step = 0;
  std::uint64_t bytes = 0;  // live at the end of the work
  std::uint64_t blocks = 0;
  std::uint32_t first_step = 0;
  std::uint32_t oldest_age_steps = 0;
  MemorySource source = MemorySource::unknown;
  Provenance source_provenance = Provenance::inferred;
  StringId module;  // its path; none: not known, or several
  StringId tag;     // that all of it was allocated under; none: no tag, or several
  std::string advice;
  std::string doubt;  // empty: none
};

struct DeviceLeaks {
  DeviceIndex device = 0;
  std::string name;
  LeakVerdict verdict = LeakVerdict::too_short;
  RepetitionKind repetition = RepetitionKind::none;
  FrameId repeated_line;    // calls, lines: which line
  std::uint32_t steps = 0;  // compared
  std::uint32_t last_step = 0;
  double bytes_per_step = 0;           // of all leaks
  double reserved_bytes_per_step = 0;  // growth of the pool
  double outside_bytes_per_step = 0;   // growth outside of the pool
  FrameId line;                  // the innermost line of user code that leads to nearly all of it
  std::vector<LeakSite> leaks;   // or, of cycles, the lines that make them; most first
  std::uint32_t suppressed = 0;  // lines that grow and were suppressed
  std::uint64_t stopped_bytes = 0;  // that grew and stopped
  std::optional<StepsLeft> steps_to_oom;
  // Why growth that was seen is no leak, a sentence each.
  std::vector<std::string> notes;
};

struct LeaksReport {
  std::string path;
  Completeness completeness;
  std::vector<DeviceLeaks> devices;
  // Of the device with the weightiest verdict.
  [[nodiscard]] const DeviceLeaks* worst() const;
};

// The leaks of one device.
DeviceLeaks judge_leaks(const Store& store, const DeviceReplay& replay, const LeakGround& ground,
                        const LeaksOptions& options = {});
// Of a whole recording. The record must have labels.
DeviceLeaks find_device_leaks(const Store& store, const DeviceRecord& record,
                              const DeviceReplay& replay, const std::vector<PhaseSpan>& spans,
                              const LeaksOptions& options = {});

// An Error if the options name a device that does not exist.
Result<LeaksReport> find_leaks(const Store& store, const std::vector<DeviceReplay>& replays,
                               const std::vector<std::vector<PhaseSpan>>& phases, std::string path,
                               const LeaksOptions& options);

}  // namespace gpumemprof
