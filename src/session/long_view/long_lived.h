// LongLived: the allocations of a long run that outlive its checkpoints: those that were live at
// two of them in a row, each with its exact birth and the last checkpoint at which it was live.
//
// They are what can be distinguished in a picture of the whole run; it is read once, from the index
// alone.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "index/run_index.h"
#include "session/device_view.h"

namespace gpumemprof {

class LongLived {
 public:
  // `reading` is held while the index is read.
  static Result<std::unique_ptr<LongLived>> read(const RunIndex& index, DeviceIndex device,
                                                 std::mutex& reading);

  [[nodiscard]] std::size_t size() const { return birth_.size(); }
  // The number by which the page knows it.
  [[nodiscard]] std::uint64_t shown_row(std::size_t row) const { return shown_row_[row]; }
  [[nodiscard]] std::uint64_t size_bytes(std::size_t row) const {
    return record_.allocations.size_bytes[row];
  }
  [[nodiscard]] std::uint64_t requested_bytes(std::size_t row) const {
    return record_.allocations.requested_bytes[row];
  }
  [[nodiscard]] std::uint32_t stream(std::size_t row) const {
    return record_.allocations.stream[row];
  }
  [[nodiscard]] Position birth(std::size_t row) const { return birth_[row]; }
  // The last position at which it was seen; none: it lives to the end.
  [[nodiscard]] std::optional<Position> last_seen(std::size_t row) const { return last_seen_[row]; }
  // The longest way between two of the checkpoints that were read, in events.
  [[nodiscard]] std::uint32_t spacing() const { return spacing_; }
  [[nodiscard]] const Grouping& grouped(const Store& store, const RunGroups& groups,
                                        GroupBy by) const;

 private:
  class Reader;

  // As a history with one event for each allocation, so that it can be grouped like any other.
  DeviceRecord record_;
  std::vector<std::uint64_t> shown_row_;
  std::vector<Position> birth_;
  std::vector<std::optional<Position>> last_seen_;
  std::uint32_t spacing_ = 0;
  mutable std::array<std::once_flag, std::size(kGroupBys)> is_grouped_;
  mutable std::array<Grouping, std::size(kGroupBys)> grouped_;
};

}  // namespace gpumemprof
