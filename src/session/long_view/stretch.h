// Stretch: a part of one device of a long run, between two checkpoints of its index, opened for
// viewing. Whatever is asked about a moment in it is answered exactly, with the numbers of the run.
#pragma once

#include <memory>
#include <mutex>
#include <optional>

#include "index/run_index.h"
#include "report/view/view_json.h"
#include "session/device_view.h"

namespace gpumemprof {

class Stretch {
 public:
  // What all stretches of a device share; it outlives them.
  struct Run {
    std::mutex* reading = nullptr;  // held while the index is read
    const RunGroups* groups = nullptr;
    std::int64_t start_ns = kUnknownTime;  // time of its first event
    std::shared_ptr<const LabelledPlaces> places;
  };
  // From the last checkpoint at or before event `from` to the first at or behind `to`.
  static Result<std::shared_ptr<const Stretch>> open(const RunIndex& index, DeviceIndex device,
                                                     std::uint32_t from, std::uint32_t to,
                                                     const Run& run);

  [[nodiscard]] const DeviceView& view() const { return *view_; }
  [[nodiscard]] const view::ShownNumbers& numbers() const { return numbers_; }
  // Its events are [first, end) of the run.
  [[nodiscard]] std::uint32_t first_event() const { return numbers_.range.from; }
  [[nodiscard]] std::uint32_t end_event() const { return numbers_.range.to; }
  // Of the run: from before its first event to after its last.
  [[nodiscard]] bool has(Position position) const {
    return position >= first_event() && position <= end_event();
  }
  [[nodiscard]] Position local(Position position) const {
    return position - first_event() + numbers_.range.lead_in;
  }
  // What lives in it before its first event is made in its first moments.
  [[nodiscard]] Position of_run(Position local) const {
    const std::uint32_t lead_in = numbers_.range.lead_in;
    return local <= lead_in ? first_event() : local - lead_in + first_event();
  }
  // The allocation with that number (view::AllocationSource::shown_row); none: it is not in it.
  [[nodiscard]] std::optional<AllocationId> find(std::uint64_t shown_row) const;
  [[nodiscard]] view::AllocationSource source() const {
    return {view_->store(), view_->record(), view_->timeline().times(), &numbers_};
  }
  // Roughly what it takes in memory, groups included.
  [[nodiscard]] std::size_t size_bytes() const { return size_bytes_; }

 private:
  Stretch() = default;

  std::unique_ptr<DeviceView> view_;
  view::ShownNumbers numbers_;
  std::size_t size_bytes_ = 0;
};

}  // namespace gpumemprof
