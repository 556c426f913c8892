// RunIndex: what was found in a long recording, in a file beside it (`run.gmp.index`), so that the
// next question need not read the recording.
//
// It belongs to one recording, byte for byte, and to one version of gpumemprof and of what it
// finds. Any other is ignored and made again. Nothing in the file is trusted: every number is
// checked before it is used.
//
// In memory are the overviews and what they refer to. Pyramids and checkpoints are read from the
// file when they are asked for.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "analysis/overview/overview.h"
#include "analysis/timeline/pyramid.h"
#include "base/result.h"
#include "index/excerpt.h"
#include "store/store.h"
#include "windows/checkpoint.h"

namespace gpumemprof {

class CheckpointReader;

// The same run, about its end.
Overview overview_at_end(Overview at_peak, Overview at_end);

enum class IndexState : std::uint8_t { missing, stale, good };

// The file beside the recording.
std::string index_path(const std::string& recording);

class RunIndex {
 public:
  // Null unless there is one of this recording. May be used from one thread at a time.
  static std::unique_ptr<RunIndex> open(const std::string& recording, IndexState& state);
  ~RunIndex();

  // What the overviews and excerpts refer to; no events.
  [[nodiscard]] const Store& store() const;
  [[nodiscard]] const Overview& at_peak() const { return at_peak_; }
  [[nodiscard]] const Overview& at_end() const;  // only what is of the moment

  // Its length when it was read.
  [[nodiscard]] std::uint64_t recording_bytes() const;
  // In order of device number, as in the overviews.
  [[nodiscard]] std::vector<DeviceIndex> devices() const;
  [[nodiscard]] Result<Pyramid> pyramid(DeviceIndex device) const;
  // The first event after each checkpoint, in order: the first is 0, the last the number of events.
  [[nodiscard]] const std::vector<std::uint32_t>& checkpoints(DeviceIndex device) const;
  // The stretch from the last checkpoint at or before `from` to the first at or behind `to`
  // (events of the run). An Error if the device or the events do not exist. It reads from the
  // index, which must outlive it.
  [[nodiscard]] Result<std::unique_ptr<ExcerptSource>> excerpt(DeviceIndex device,
                                                               std::uint32_t from,
                                                               std::uint32_t to) const;
  // The state at one of these checkpoints.
  [[nodiscard]] Result<DeviceCheckpoint> checkpoint(DeviceIndex device, std::size_t number) const;
  // The allocations that failed, as a timeline shows them: the first few.
  [[nodiscard]] Result<std::vector<OverlayOom>> failures(DeviceIndex device) const;
  // The phases of the whole run, in order.
  [[nodiscard]] Result<std::vector<PhaseSpan>> spans(DeviceIndex device) const;

 private:
  RunIndex(std::string recording, std::unique_ptr<IndexFile> file);
  [[nodiscard]] std::string known_devices() const;

  std::string recording_;
  std::unique_ptr<IndexFile> file_;
  std::unique_ptr<CheckpointReader> checkpoints_;
  Overview at_peak_;
};

}  // namespace gpumemprof
