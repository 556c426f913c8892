#include "session/long_view/long_range.h"

#include <algorithm>

#include "analysis/range/range_changes.h"

namespace gpumemprof {

bool LongRange::is_born_in_it(const Stretch& stretch, std::size_t row) const {
  const view::AllocationSource source = stretch.source();
  return source.shown_row(row) < view::kOlderRow && source.shown_birth(row) > from_;
}

Result<view::RangeFacts> LongRange::ends() const {
  view::RangeFacts facts;
  facts.from = from_;
  facts.to = to_;
  const auto bytes_at = [&](Position position) -> Result<std::uint64_t> {
    const Result<StretchPtr> stretch = device_.at(position);
    if (!stretch) return stretch.error();
    return stretch.value()->view().timeline().allocated().bytes_at(
        stretch.value()->local(position));
  };
  const Result<std::uint64_t> first = bytes_at(from_);
  if (!first) return first.error();
  const Result<std::uint64_t> last = bytes_at(to_);
  if (!last) return last.error();
  facts.from_bytes = first.value();
  facts.to_bytes = last.value();
  return facts;
}

Result<RangeChanges> LongRange::survivors() const {
  const Result<StretchPtr> last = device_.at(to_);
  if (!last) return last.error();
  const Stretch& stretch = *last.value();
  return survivors_at(stretch.view().record(), stretch.view().live(), stretch.local(to_),
                      [&](std::size_t row) { return is_born_in_it(stretch, row); });
}

Result<Flame> LongRange::surviving_flame(FlameBy by) const {
  const Result<StretchPtr> last = device_.at(to_);
  if (!last) return last.error();
  const Stretch& stretch = *last.value();
  const DeviceView& view = stretch.view();
  const Position local = stretch.local(to_);
  std::vector<AllocationId> rows = view.live().active_at(local);
  std::erase_if(rows, [&](AllocationId row) {
    return !view.record().allocations.is_allocated_at(row.index, moment_of(local)) ||
           !is_born_in_it(stretch, row.index);
  });
  FlameOptions options;
  options.by = by;
  return flame_of(view.store(), view.record(), rows, options);
}

Status LongRange::each_piece(const GoesOn& goes_on,
                             const std::function<void(const Piece&)>& use) const {
  const std::size_t first = device_.interval_of(from_);
  const std::size_t last = device_.interval_of(to_);
  for (std::size_t interval = first; interval <= last; ++interval) {
    if (!goes_on(interval - first, last - first + 1))
      return Error{ErrorCode::usage, "nobody waited for this range any more", "", "ask again"};
    const Result<StretchPtr> read = device_.read(interval);
    if (!read) return read.error();
    const Stretch& stretch = *read.value();
    const Position from = std::max(from_, stretch.first_event());
    const Position to = std::min(to_, stretch.end_event());
    if (from > to) continue;
    use({stretch, stretch.local(from), stretch.local(to)});
  }
  return Done{};
}

Result<RangeChanges> LongRange::changes(view::RangeFacts& facts, const GoesOn& goes_on) const {
  RangeChanges all;
  const Status read = each_piece(goes_on, [&](const Piece& piece) {
    const DeviceView& view = piece.stretch.view();
    all.add_moved(changes_in(view.record(), view.live(), piece.from, piece.to));
    const LiveRange most = view.timeline().allocated().range(piece.from, piece.to + 1);
    if (most.max_bytes <= facts.peak_bytes && facts.peak_bytes > 0) return;
    facts.peak_bytes = most.max_bytes;
    facts.peak_position = piece.stretch.of_run(most.max_position);
  });
  if (!read) return read.error();
  const Result<RangeChanges> survived = survivors();
  if (!survived) return survived.error();
  all.add_survived(survived.value());
  return all;
}

Result<Flame> LongRange::flame(RangePart part, FlameBy by, const GoesOn& goes_on) const {
  if (part == RangePart::survived) return surviving_flame(by);
  FlameOptions options;
  options.by = by;
  FlameSum sum(options);
  const Status read = each_piece(goes_on, [&](const Piece& piece) {
    const DeviceView& view = piece.stretch.view();
    std::vector<AllocationId> rows;
    visit_range(view.record(), view.live(), piece.from, piece.to, [&](const RangeRow& row) {
      if (row.is_in(part)) rows.emplace_back(row.row);
    });
    sum.add(view.store(), view.record(), rows);
  });
  if (!read) return read.error();
  return std::move(sum).result();
}

}  // namespace gpumemprof
