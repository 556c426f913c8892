#include "windows/part_taker.h"

#include <algorithm>

#include "analysis/moment/pool_state.h"

namespace gpumemprof {
namespace {

// What the last segment before an event was: it decides how blocks are split after it.
std::optional<bool> last_segment_kind(const SegmentColumns& segments, const KeptRun& run,
                                      std::uint32_t from) {
  std::optional<bool> kind;
  std::uint32_t last = 0;
  for (std::size_t row = 0; row < segments.size(); ++row) {
    const std::uint32_t place = segments.birth_event[row];
    if (place == kNoEvent || place >= run.place_of(from) || (kind && place < last)) continue;
    last = place;
    kind = segments.is_expandable[row] != 0;
  }
  return kind;
}

}  // namespace

PartTaker::PartTaker(const Store& store, DeviceIndex device, ExcerptRange range) : store_(store) {
  part_.device = device;
  part_.range = range;
}

KnownLabel PartTaker::label_of(const DeviceRecord& record, std::size_t row) const {
  const AllocationLabels& labels = record.labels;
  return {labels.source[row], labels.flags[row],
          labels.name.empty() ? StringId() : labels.name[row]};
}

void PartTaker::take(const KeptRun& run, const LocalView& view, const Window& window,
                     const std::vector<PhaseSpan>& /*spans*/) {
  const DeviceRecord& record = view.record();
  const auto [from, to] = std::pair(part_.range.from, part_.range.to);
  if (window.first == 0 && !record.events.empty()) part_.first_time_ns = record.events.time_ns[0];
  if (from >= window.first && from < window.end) take_start(run, view);
  const std::uint32_t first = std::max(from, window.first);
  const std::uint32_t end = std::min(to, window.end);
  if (first >= end) return;
  part_.events.append(record.events, run.place_of(first), end - first);
  for (std::size_t row = 0; row < record.allocations.size(); ++row) {
    const std::uint32_t birth = view.birth(row);
    if (birth != kNoEvent && birth >= first && birth < end)
      part_.born.emplace_back(birth, label_of(record, row));
  }
  take_said(run, view, window);
}

void PartTaker::take_start(const KeptRun& run, const LocalView& view) {
  const DeviceRecord& record = view.record();
  const std::uint32_t place = run.place_of(part_.range.from);
  const Moment moment = place == 0 ? Moment::start() : Moment::after(place - 1);
  const PoolState pool = pool_state_at(record, moment);
  const AllocationColumns& rows = record.allocations;
  const auto take_older = [&](const PoolBlock& block) {
    const std::size_t row = block.allocation.index;
    const std::uint32_t birth = view.birth(row);
    if (birth == kNoEvent) return false;
    OlderAllocation& older = part_.older.emplace_back();
    older.birth = birth;
    older.event = record.events.row(rows.alloc_event[row]);
    older.block_bytes = rows.size_bytes[row];
    if (block.is_waiting) older.free_event = record.events.row(rows.free_requested_event[row]);
    older.label = label_of(record, row);
    return true;
  };
  for (const PoolSegment& segment : pool.segments) {
    part_.start.segments.push_back(segment.state);
    for (const PoolBlock& block : pool.blocks_of(segment)) {
      if (block.is_free() || take_older(block)) continue;
      const std::size_t row = block.allocation.index;
      part_.start.blocks.push_back({block.address, block.size_bytes, rows.requested_bytes[row],
                                    block.is_waiting ? BlockStateKind::active_pending_free
                                                     : BlockStateKind::active_allocated,
                                    rows.stack[row]});
      part_.start_labels.push_back(label_of(record, row));
    }
    part_.start.first_block.push_back(static_cast<std::uint32_t>(part_.start.blocks.size()));
  }
  for (const PoolBlock& block : pool.strays) take_older(block);
  std::ranges::sort(part_.older, {}, &OlderAllocation::birth);
  part_.range.is_expandable = last_segment_kind(record.segments, run, part_.range.from);
}

void PartTaker::take_said(const KeptRun& run, const LocalView& view, const Window& window) {
  const DeviceRecord& record = view.record();
  const std::uint32_t begin = run.place_of(window.first);
  const auto number = [&](std::uint32_t place) { return window.first + (place - begin); };
  const auto is_here = [&](std::uint32_t place) {
    if (place < begin || number(place) > window.end) return false;
    const std::uint32_t at = number(place);
    const std::uint32_t from = part_.range.from;
    // At the border of two windows: once.
    const bool is_first = at == from && from < window.end;
    return at <= part_.range.to && (is_first || (at > from && at > window.first));
  };
  for (Labelling labelling : record.labellings) {
    if (!is_here(labelling.before_event)) continue;
    const std::span<const Label> labels = store_.label_set(labelling.set);
    labelling.before_event = number(labelling.before_event);
    part_.labellings.push_back(labelling);
    part_.label_sets.emplace_back(labels.begin(), labels.end());
  }
  for (PhaseMark mark : record.phase_marks) {
    if (!is_here(mark.before_event)) continue;
    mark.before_event = number(mark.before_event);
    part_.phase_marks.push_back(mark);
  }
}

}  // namespace gpumemprof
