// Excerpts: a part of a run that is too long for memory, opened as a recording of its own.
//
// It begins with what was live at its first event, and knows what the whole run shows: the sources
// of its memory, its steps. Every analysis works on it; events, steps and times are numbered as in
// the whole run.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "event/excerpt.h"
#include "session/excerpt/run_outline.h"
#include "session/recording.h"
#include "windows/windowed_run.h"

namespace gpumemprof {

// Which part of a run.
struct AskedPart {
  enum class Kind : std::uint8_t {
    peak,    // the step of the peak, some steps before it and one after
    events,  // [first, last) of one device
    steps,   // first to last, both included
  };
  Kind kind = Kind::peak;
  std::uint32_t first = 0;
  std::uint32_t last = 0;
  std::optional<DeviceIndex> device;  // none: all; for events, the one with the highest peak
};

// The most events that an excerpt may hold: they take about 1 GiB.
inline constexpr std::uint32_t kMostExcerptEvents = 12'000'000;

// Where in the run the part is, by device. An Error if it is not in the run.
Result<std::map<DeviceIndex, ExcerptRange>> find_part(const RunOutline& run,
                                                      const std::string& path,
                                                      const AskedPart& asked);

// The parts as one recording; `store` is what they refer to.
Result<std::shared_ptr<const Recording>> recording_of(const Store& store,
                                                      std::vector<RunPart> parts,
                                                      const std::string& path);

// A .gmp file of more than a few million events.
bool is_long_recording(const std::string& path);
// What reading a recording whole takes, roughly; 0: unknown.
std::uint64_t memory_of_whole(const std::string& path);

// The steps around the peak of one device, at the checkpoints of the index that lies beside
// `indexed`. `path`: what the recording is called. An Error if they have more events than that.
Result<std::shared_ptr<const Recording>> open_peak(const std::string& indexed,
                                                   const std::string& path, DeviceIndex device,
                                                   std::uint32_t most_events);

// Opened at the checkpoints of the recording's index, which is made if there is none; where none
// can be, and of a short recording, by two passes over it. Null if it must be read whole: the state
// at its start is not known.
Result<std::shared_ptr<const Recording>> open_excerpt(const std::string& path,
                                                      const AskedPart& asked,
                                                      const OpenOptions& options = {});

}  // namespace gpumemprof
