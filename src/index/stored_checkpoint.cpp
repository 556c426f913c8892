#include "index/stored_checkpoint.h"

#include <tuple>

#include "trace/bytes_io.h"

namespace gpumemprof {
namespace {

// Unsigned, so that nothing overflows.
std::uint64_t as_number(std::int64_t value) { return static_cast<std::uint64_t>(value); }
std::int64_t as_time(std::uint64_t value) { return static_cast<std::int64_t>(value); }

// Neighbours have similar addresses, times and births: the steps from one to the next take a few
// bytes.
void to_steps(std::vector<OldAllocation>& allocations) {
  OldAllocation last;
  last.time_ns = 0;
  for (OldAllocation& old : allocations) {
    const OldAllocation now = old;
    old.address = trace::zigzag(as_time(now.address - last.address));
    old.time_ns = as_time(as_number(now.time_ns) - as_number(last.time_ns));
    old.birth_event = now.birth_event - last.birth_event;
    last = now;
  }
}

// Whatever the numbers are.
void from_steps(std::vector<OldAllocation>& allocations) {
  OldAllocation last;
  last.time_ns = 0;
  for (OldAllocation& old : allocations) {
    old.address = last.address + as_number(trace::unzigzag(old.address));
    old.time_ns = as_time(as_number(last.time_ns) + as_number(old.time_ns));
    old.birth_event += last.birth_event;
    last = old;
  }
}

RowIdentity identity_of_row(const OldAllocation& old) {
  return {old.address, old.size_bytes, old.birth_event, old.name,
          old.stack,   old.source,     old.flags,       old.is_pending};
}

bool is_same(const RowIdentity& a, const OldAllocation& b) { return a == identity_of_row(b); }
bool is_same(const SegmentState& a, const SegmentState& b) {
  const auto all = [](const SegmentState& x) {
    return std::tuple(x.device, x.address, x.size_bytes, x.stream, x.pool, x.is_small,
                      x.is_expandable, x.stack);
  };
  static_assert(std::tuple_size_v<decltype(all(a))> == field_count<SegmentState>());
  return all(a) == all(b);
}

bool is_before(const SegmentState& a, const SegmentState& b) { return a.address < b.address; }
// None, the largest number, stands for the oldest: such a row is never new, so the base's is gone.
bool is_before(const RowIdentity& a, const OldAllocation& b) {
  return a.birth_event + 1U < b.birth_event + 1U ||
         (a.birth_event == kNoEvent && b.birth_event == kNoEvent);
}

// Both lists are in the same order. If they were not, the changes would be more, but still right.
template <typename Old, typename T>
ChangedList<T> changed_list(const std::vector<Old>& base, const std::vector<T>& now) {
  ChangedList<T> list;
  const auto open = [&]() -> ListChange& {
    if (list.changes.empty()) list.changes.emplace_back();
    return list.changes.back();
  };
  std::size_t old = 0;
  std::size_t row = 0;
  while (old < base.size() || row < now.size()) {
    if (old < base.size() && row < now.size() && is_same(base[old], now[row])) {
      if (open().left_out > 0 || open().added > 0) list.changes.emplace_back();
      ++list.changes.back().kept;
      ++old;
      ++row;
    } else if (old < base.size() && (row == now.size() || is_before(base[old], now[row]))) {
      ++open().left_out;
      ++old;
    } else {
      ++open().added;
      list.added.push_back(now[row++]);
    }
  }
  return list;
}

template <typename T>
bool apply(const ChangedList<T>& list, const std::vector<T>& base, std::vector<T>& found) {
  std::size_t old = 0;
  std::size_t added = 0;
  for (const ListChange& change : list.changes) {
    if (change.kept > base.size() - old) return false;
    found.insert(found.end(), base.begin() + static_cast<std::ptrdiff_t>(old),
                 base.begin() + static_cast<std::ptrdiff_t>(old + change.kept));
    old += change.kept;
    if (change.left_out > base.size() - old || change.added > list.added.size() - added)
      return false;
    old += change.left_out;
    found.insert(found.end(), list.added.begin() + static_cast<std::ptrdiff_t>(added),
                 list.added.begin() + static_cast<std::ptrdiff_t>(added + change.added));
    added += change.added;
  }
  return old == base.size() && added == list.added.size();
}

}  // namespace

CheckpointRows rows_of(const DeviceCheckpoint& checkpoint) {
  CheckpointRows rows{checkpoint.number, checkpoint.segments, {}};
  rows.allocations.reserve(checkpoint.allocations.size());
  for (const OldAllocation& old : checkpoint.allocations)
    rows.allocations.push_back(identity_of_row(old));
  return rows;
}

StoredCheckpoint to_stored(const DeviceCheckpoint& checkpoint, const CheckpointRows* base) {
  StoredCheckpoint stored;
  stored.device = checkpoint.device;
  stored.number = checkpoint.number;
  stored.base = base == nullptr ? checkpoint.number : base->number;
  stored.event = checkpoint.event;
  if (base == nullptr) {
    stored.segments.added = checkpoint.segments;
    stored.allocations.added = checkpoint.allocations;
  } else {
    stored.segments = changed_list(base->segments, checkpoint.segments);
    stored.allocations = changed_list(base->allocations, checkpoint.allocations);
  }
  to_steps(stored.allocations.added);
  return stored;
}

std::size_t added_rows(const StoredCheckpoint& stored) {
  return stored.segments.added.size() + stored.allocations.added.size();
}

bool from_stored(StoredCheckpoint& stored, const DeviceCheckpoint* base, DeviceCheckpoint& found) {
  found.device = stored.device;
  found.number = stored.number;
  found.event = stored.event;
  from_steps(stored.allocations.added);
  if (base != nullptr)
    return apply(stored.segments, base->segments, found.segments) &&
           apply(stored.allocations, base->allocations, found.allocations);
  found.segments = std::move(stored.segments.added);
  found.allocations = std::move(stored.allocations.added);
  return stored.segments.changes.empty() && stored.allocations.changes.empty();
}

StoredSpans to_stored(const std::vector<PhaseSpan>& spans) {
  StoredSpans stored{spans};
  std::uint32_t last = 0;
  for (PhaseSpan& span : stored.spans) {
    const std::uint32_t first = span.first_event;
    span.first_event = first - last;
    last = first;
  }
  return stored;
}

std::vector<PhaseSpan> from_stored(StoredSpans&& stored) {
  std::uint32_t last = 0;
  for (PhaseSpan& span : stored.spans) last = span.first_event += last;
  return std::move(stored.spans);
}

}  // namespace gpumemprof
