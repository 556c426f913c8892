// RunOutline: where the events, the steps and the peak of a long run are, however that is known:
// from reading it once, or from its index.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "event/excerpt.h"
#include "index/run_index.h"
#include "windows/windowed_run.h"

namespace gpumemprof {

struct DeviceOutline {
  std::string name;
  std::uint32_t events = 0;
  std::uint32_t last_step = 0;
  std::uint32_t peak_event = kNoEvent;
  std::uint64_t peak_bytes = 0;
  std::int64_t first_time_ns = kUnknownTime;
};

class RunOutline {
 public:
  RunOutline() = default;
  RunOutline(const RunOutline&) = delete;
  RunOutline& operator=(const RunOutline&) = delete;
  virtual ~RunOutline() = default;

  [[nodiscard]] virtual std::vector<DeviceIndex> devices() const = 0;
  [[nodiscard]] virtual DeviceOutline device(DeviceIndex device) const = 0;
  // The step that an event is in; 0: before the first.
  [[nodiscard]] virtual std::uint32_t step_at(DeviceIndex device, std::uint32_t event) const = 0;
  // The first event of a step that is not before this one; the number of events: there is none.
  [[nodiscard]] virtual std::uint32_t begin_of_step(DeviceIndex device,
                                                    std::uint32_t step) const = 0;
};

// After the first pass.
class SurveyedOutline final : public RunOutline {
 public:
  // It must outlive this.
  explicit SurveyedOutline(const WindowedRun& run) : run_(run) {}

  [[nodiscard]] std::vector<DeviceIndex> devices() const override { return run_.devices(); }
  [[nodiscard]] DeviceOutline device(DeviceIndex device) const override;
  [[nodiscard]] std::uint32_t step_at(DeviceIndex device, std::uint32_t event) const override;
  [[nodiscard]] std::uint32_t begin_of_step(DeviceIndex device, std::uint32_t step) const override;

 private:
  const WindowedRun& run_;
};

// The phases lie in the checkpoints: a few of them are read to find a step.
class IndexOutline final : public RunOutline {
 public:
  // It must outlive this.
  explicit IndexOutline(const RunIndex& index) : index_(index) {}

  [[nodiscard]] std::vector<DeviceIndex> devices() const override { return index_.devices(); }
  [[nodiscard]] DeviceOutline device(DeviceIndex device) const override;
  [[nodiscard]] std::uint32_t step_at(DeviceIndex device, std::uint32_t event) const override;
  [[nodiscard]] std::uint32_t begin_of_step(DeviceIndex device, std::uint32_t step) const override;

  // A checkpoint could not be read: what was said is not to be used.
  [[nodiscard]] bool is_damaged() const { return is_damaged_; }

 private:
  using Spans = std::vector<PhaseSpan>;
  // Of the events since the checkpoint before.
  [[nodiscard]] const Spans& spans(DeviceIndex device, std::size_t checkpoint) const;
  // The step that the events before a checkpoint end in.
  [[nodiscard]] std::uint32_t step_before(DeviceIndex device, std::size_t checkpoint) const;

  const RunIndex& index_;
  mutable std::map<std::pair<DeviceIndex, std::size_t>, Spans> read_;
  mutable bool is_damaged_ = false;
};

}  // namespace gpumemprof
