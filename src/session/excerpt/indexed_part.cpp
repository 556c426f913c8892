#include "session/excerpt/indexed_part.h"

#include <algorithm>

#include "analysis/moment/pool_state.h"
#include "session/excerpt/part_source.h"

namespace gpumemprof {

KnownPart known_part(const Excerpt& excerpt, std::uint32_t run_events, std::int64_t first_time_ns) {
  KnownPart known;
  known.device = excerpt.device;
  known.kind = excerpt.kind;
  known.range.from = excerpt.first_event;
  known.range.to = excerpt.end_event;
  known.range.run_events = run_events;
  known.range.lead_in = excerpt.prelude;
  known.range.run_start_ns = first_time_ns;
  if (excerpt.prelude > 0) known.spans.push_back({0, Phase::other, 0});
  known.spans.insert(known.spans.end(), excerpt.spans.begin(), excerpt.spans.end());
  for (const KnownAllocation& old : excerpt.known)
    known.allocations.push_back({old.event, old.birth_event, old.source, old.flags, old.name});
  return known;
}

namespace {

const DeviceRecord& record_of(const Recording& recording, DeviceIndex device) {
  const Store& store = recording.store();
  const std::optional<std::size_t> row = store.device_row(device);
  GMP_CHECK(row);
  return *store.devices()[*row];
}

// Takes a part out of a stretch, as PartTaker takes one out of the run.
class StretchCutter {
 public:
  StretchCutter(const Recording& stretch, DeviceIndex device, const ExcerptRange& range)
      : store_(stretch.store()),
        known_(*stretch.known_part(device)),
        record_(record_of(stretch, device)) {
    part_.device = device;
    part_.range = range;
    part_.first_time_ns = range.run_start_ns;
  }

  RunPart cut() {
    take_start();
    const std::uint32_t from = part_.range.from;
    const std::uint32_t to = part_.range.to;
    part_.events.append(record_.events, known_.range.row_of(from), to - from);
    for (std::size_t row = 0; row < record_.allocations.size(); ++row) {
      const std::uint32_t birth = birth_of(row);
      if (birth != kNoEvent && birth >= from && birth < to)
        part_.born.emplace_back(birth, label_of(row));
    }
    take_said();
    for (const PhaseSpan& span : known_.spans) {
      if (span.first_event >= known_.range.lead_in)
        part_.spans.push_back({number_of(span.first_event), span.phase, span.step});
    }
    return std::move(part_);
  }

 private:
  [[nodiscard]] std::uint32_t number_of(std::uint32_t row) const {
    return row - known_.range.lead_in + known_.range.from;
  }
  // In the run.
  [[nodiscard]] std::uint32_t birth_of(std::size_t row) const {
    const std::uint32_t event = record_.allocations.alloc_event[row];
    if (event == kNoEvent || event >= known_.range.lead_in)
      return event == kNoEvent ? kNoEvent : number_of(event);
    const KnownPart::Allocation* const known = known_allocation(event);
    return known == nullptr ? kNoEvent : known->birth;
  }
  [[nodiscard]] const KnownPart::Allocation* known_allocation(std::uint32_t event) const {
    const auto known =
        std::ranges::lower_bound(known_.allocations, event, {}, &KnownPart::Allocation::event);
    return known == known_.allocations.end() || known->event != event ? nullptr : &*known;
  }
  [[nodiscard]] KnownLabel label_of(std::size_t row) const {
    const AllocationLabels& labels = record_.labels;
    return {labels.source[row], labels.flags[row],
            labels.name.empty() ? StringId() : labels.name[row]};
  }

  void take_start() {
    const std::uint32_t row = known_.range.row_of(part_.range.from);
    const Moment moment = row == 0 ? Moment::start() : Moment::after(row - 1);
    const PoolState pool = pool_state_at(record_, moment);
    for (const PoolSegment& segment : pool.segments) {
      part_.start.segments.push_back(segment.state);
      for (const PoolBlock& block : pool.blocks_of(segment)) {
        if (!block.is_free()) take_block(block);
      }
      part_.start.first_block.push_back(static_cast<std::uint32_t>(part_.start.blocks.size()));
    }
    for (const PoolBlock& block : pool.strays) {
      if (birth_of(block.allocation.index) != kNoEvent) take_block(block);
    }
    std::ranges::stable_sort(part_.older, {}, &OlderAllocation::birth);
    part_.range.is_expandable = last_segment_kind(pool, row);
  }

  void take_block(const PoolBlock& block) {
    const AllocationColumns& rows = record_.allocations;
    const std::size_t row = block.allocation.index;
    const std::uint32_t birth = birth_of(row);
    if (birth == kNoEvent) {
      part_.start.blocks.push_back({block.address, block.size_bytes, rows.requested_bytes[row],
                                    block.is_waiting ? BlockStateKind::active_pending_free
                                                     : BlockStateKind::active_allocated,
                                    rows.stack[row]});
      part_.start_labels.push_back(label_of(row));
      return;
    }
    OlderAllocation& older = part_.older.emplace_back();
    older.birth = birth;
    older.event = record_.events.row(rows.alloc_event[row]);
    older.block_bytes = rows.size_bytes[row];
    if (block.is_waiting) older.free_event = record_.events.row(rows.free_requested_event[row]);
    older.label = label_of(row);
  }

  // What the last segment before the part was: it decides how blocks are split after it. Of those
  // that a stretch begins with, no order is known.
  [[nodiscard]] std::optional<bool> last_segment_kind(const PoolState& pool,
                                                      std::uint32_t row) const {
    const SegmentColumns& segments = record_.segments;
    std::optional<bool> kind;
    std::uint32_t last = 0;
    for (std::size_t index = 0; index < segments.size(); ++index) {
      const std::uint32_t birth = segments.birth_event[index];
      if (birth == kNoEvent || birth >= row || (kind && birth < last)) continue;
      last = birth;
      kind = segments.is_expandable[index] != 0;
    }
    if (kind || pool.segments.empty()) return kind;
    const bool is_expandable = pool.segments.front().state.is_expandable;
    const bool are_alike = std::ranges::all_of(pool.segments, [&](const PoolSegment& segment) {
      return segment.state.is_expandable == is_expandable;
    });
    return are_alike ? std::optional(is_expandable) : std::nullopt;
  }

  void take_said() {
    const auto take = [&](std::uint32_t& position) {
      if (position < known_.range.lead_in) return false;
      position = number_of(position);
      return position >= part_.range.from && position <= part_.range.to;
    };
    for (Labelling labelling : record_.labellings) {
      if (!take(labelling.before_event)) continue;
      const std::span<const Label> labels = store_.label_set(labelling.set);
      part_.labellings.push_back(labelling);
      part_.label_sets.emplace_back(labels.begin(), labels.end());
    }
    for (PhaseMark mark : record_.phase_marks) {
      if (take(mark.before_event)) part_.phase_marks.push_back(mark);
    }
    for (DeviceSample sample : store_.samples()) {
      if (sample.device != part_.device || sample.before_event == kNoEvent ||
          sample.before_event < known_.range.lead_in)
        continue;
      sample.before_event = number_of(sample.before_event);
      part_.samples.push_back(sample);
    }
    for (const Annotation& annotation : store_.annotations()) {
      if (annotation.device == part_.device) part_.annotations.push_back(annotation);
    }
  }

  const Store& store_;
  const KnownPart& known_;
  const DeviceRecord& record_;
  RunPart part_;
};

// What was lost before the part matters in it, too: the index lists all of it.
std::vector<LostEvents> losses_of(const RunIndex& index, DeviceIndex device,
                                  std::int64_t first_time_ns) {
  const std::string name = index.store().device_name(device);
  const auto time = [&](std::int64_t since_ns) {
    return since_ns == kUnknownTime || first_time_ns == kUnknownTime ? kUnknownTime
                                                                     : first_time_ns + since_ns;
  };
  std::vector<LostEvents> found;
  for (const LostPeriod& period : index.at_peak().completeness.lost_periods) {
    if (period.device != name) continue;
    LostEvents lost;
    lost.device = device;
    lost.before_event = period.from_event;
    lost.end_event = period.to_event;
    lost.count = period.events.value_or(LostEvents::kUnknownCount);
    lost.first_time_ns = time(period.from_ns);
    lost.last_time_ns = time(period.to_ns);
    lost.allocations = period.allocations;
    lost.frees = period.frees;
    lost.is_of_chapters = lost.is_bridged = period.is_summarised;
    found.push_back(lost);
  }
  return found;
}

}  // namespace

std::shared_ptr<const LabelledPlaces> places_at_start(const RunIndex& index, DeviceIndex device) {
  const auto overview = std::ranges::find(index.at_peak().devices, device, &DeviceOverview::device);
  if (overview == index.at_peak().devices.end() || !overview->sources.has_labels) return nullptr;
  // Its times are not asked for.
  const Result<std::shared_ptr<const Recording>> head = open_stretch(index, device, 0, 1, 0);
  if (!head) return nullptr;
  return std::make_shared<LabelledPlaces>(labelled_places(head.value()->store(),
                                                          record_of(*head.value(), device),
                                                          head.value()->known_part(device)->spans));
}

Result<std::shared_ptr<const Recording>> open_stretch(const RunIndex& index, DeviceIndex device,
                                                      std::uint32_t from, std::uint32_t to,
                                                      std::int64_t first_time_ns) {
  // One checkpoint more on each side: what memory is for shows in the steps around it.
  const std::vector<std::uint32_t>& checkpoints = index.checkpoints(device);
  auto first = std::ranges::upper_bound(checkpoints, from);
  for (int more = 0; more < 2 && first != checkpoints.begin(); ++more) --first;
  auto last = std::ranges::lower_bound(checkpoints, to);
  if (last != checkpoints.end() && std::next(last) != checkpoints.end()) ++last;
  const std::uint32_t end = last == checkpoints.end() ? checkpoints.back() : *last;
  Result<std::unique_ptr<ExcerptSource>> source = index.excerpt(device, *first, end);
  if (!source) return source.error();
  std::shared_ptr<const LabelledPlaces> places;
  if (*first > 0) places = places_at_start(index, device);
  return Recording::from_excerpt(*source.value(), index.at_peak().path, [&] {
    KnownPart known = known_part(source.value()->excerpt(), checkpoints.back(), first_time_ns);
    known.places = places;
    return std::vector<KnownPart>{std::move(known)};
  });
}

Result<std::shared_ptr<const Recording>> open_parts(
    const RunIndex& index, const std::string& path,
    const std::map<DeviceIndex, ExcerptRange>& ranges) {
  std::vector<RunPart> parts;
  for (const auto& [device, range] : ranges) {
    Result<std::shared_ptr<const Recording>> stretch =
        open_stretch(index, device, range.from, range.to, range.run_start_ns);
    if (!stretch) return stretch.error();
    RunPart& part = parts.emplace_back(StretchCutter(*stretch.value(), device, range).cut());
    part.lost_events = losses_of(index, device, range.run_start_ns);
  }
  // Every stretch has the definitions of the index, in the same rows.
  PartSource source(index.store(), std::move(parts));
  return Recording::from_excerpt(source, path, [&] { return source.known(); });
}

}  // namespace gpumemprof
