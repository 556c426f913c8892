// LiveRows: which allocations are active at any position, without a scan of the whole history.
//
// From time to time the active rows are stored as a list; what is active later is what remains of
// them, plus what was born since. Between two lists there are as many births as the first is long,
// so all lists together are at most a few times as long as there are allocations.
#pragma once

#include <vector>

#include "analysis/timeline/live_changes.h"
#include "store/store.h"

namespace gpumemprof {

class LiveRows {
 public:
  // The record must outlive it.
  explicit LiveRows(const DeviceRecord& record);

  // In order of birth.
  [[nodiscard]] std::vector<AllocationId> active_at(Position position) const;
  // Calls visit(row) for those born at positions first to last.
  template <typename Visit>
  void visit_born(Position first, Position last, const Visit& visit) const {
    for (std::size_t row = is_sorted_ ? first_born_at(first) : 0; row < rows_.size(); ++row) {
      const Position born = birth(row);
      if (is_sorted_ && born > last) return;
      if (born >= first && born <= last) visit(row);
    }
  }

 private:
  struct List {
    std::size_t first = 0;     // of listed_
    std::size_t next_row = 0;  // all rows before it are born by then
  };
  [[nodiscard]] Position birth(std::size_t row) const {
    return birth_position(rows_.alloc_event[row]);
  }
  // The first row born there or later, if rows are sorted.
  [[nodiscard]] std::size_t first_born_at(Position position) const;
  void write_lists();

  const AllocationColumns& rows_;
  bool is_sorted_ = true;  // by birth; otherwise every query is a scan
  Column<std::uint32_t> listed_;
  std::vector<List> lists_;
};

}  // namespace gpumemprof
