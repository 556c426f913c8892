#include "analysis/sources/sweep.h"

#include <algorithm>
#include <ranges>
#include <utility>

namespace gpumemprof {
namespace {

constexpr std::uint32_t kNoRow = AllocationId::kNone;

}  // namespace

Sweep::Sweep(std::size_t events, bool has_labels, const SourcesOptions& options)
    : events_(events),
      has_labels_(has_labels),
      series_points_(std::max<std::size_t>(options.series_points, 1)) {}

void Sweep::raise_maximum(SourceFigure& figure, std::uint64_t bytes, std::uint32_t event,
                          std::uint64_t inferred) const {
  if (bytes <= figure.bytes_max) return;
  figure.bytes_max = bytes;
  figure.max_event = event;
  figure.max_provenance =
      has_labels_ && inferred == 0 ? Provenance::measured : Provenance::inferred;
}

void Sweep::pass(const SweptPart& part, DeviceSources& sources) {
  sort_lifetimes(part);
  for (std::size_t index = part.first; index < part.end; ++index) step_over(part, index, sources);
}

void Sweep::finish(DeviceSources& sources) {
  forget_unneeded(sources, sources.phases.size());
  sum_up_steps(sources.phases.size(), sources);
}

void Sweep::fold(std::size_t ends, DeviceSources& sources) {
  std::vector<PhaseFigures>& phases = sources.phases;
  if (phases.size() - summed_ < ends) return;
  // A phase changes until one of the next step says whether a backward followed it.
  std::size_t end = phases.size();
  while (end > summed_ && phases[end - 1].phase == Phase::other) --end;
  while (end > summed_ && end > 0 && phases[end - 1].step == phases.back().step) --end;
  if (end == 0 || end <= summed_) return;
  const std::uint32_t last_step = phases[end - 1].step;
  while (end > summed_ && phases[end - 1].step == last_step) --end;
  forget_unneeded(sources, end);
  sum_up_steps(end, sources);
  std::vector<StepFigures>& steps = sources.steps;
  if (steps.size() <= 2 * ends) return;
  const auto largest = std::ranges::max_element(steps, {}, &StepFigures::peak_bytes);
  std::size_t kept = 0;  // phases
  for (std::size_t index = 0; index < steps.size(); ++index) {
    StepFigures& step = steps[index];
    const bool is_middle = index >= ends && index + ends < steps.size();
    if (is_middle && steps.begin() + static_cast<std::ptrdiff_t>(index) != largest)
      step.phase_count = 0;
    const std::size_t first = std::exchange(step.first_phase, static_cast<std::uint32_t>(kept));
    for (std::uint32_t row = 0; row < step.phase_count; ++row) phases[kept++] = phases[first + row];
  }
  const std::size_t shift = summed_ - kept;
  phases.erase(phases.begin() + static_cast<std::ptrdiff_t>(kept),
               phases.begin() + static_cast<std::ptrdiff_t>(summed_));
  summed_ -= shift;
  leave_out_steps(ends, sources);
}

void Sweep::leave_out_steps(std::size_t ends, DeviceSources& sources) {
  std::vector<StepFigures>& steps = sources.steps;
  const auto largest = static_cast<std::size_t>(
      std::ranges::max_element(steps, {}, &StepFigures::peak_bytes) - steps.begin());
  std::size_t kept = 0;
  for (std::size_t index = 0; index < steps.size(); ++index) {
    const StepFigures& step = steps[index];
    if (index < ends || index + ends >= steps.size() || index == largest) {
      steps[kept++] = step;
      continue;
    }
    StepsLeftOut& left_out = steps[kept - 1].left_out;
    left_out.add({1, step.peak_bytes, step.peak_bytes});
    left_out.add(step.left_out);
  }
  steps.resize(kept);
}

void Sweep::add(const DeviceRecord& record, const AllocationLabels& labels, std::size_t row) {
  const AllocationColumns& rows = record.allocations;
  now_.add(labels.source[row], rows.requested_bytes[row], rows.size_bytes[row]);
  allocated_ += rows.size_bytes[row];
  if (labels.source_in_step(row) == MemorySource::activations) saved_ += rows.requested_bytes[row];
  if (!labels.is_measured(row)) ++inferred_[static_cast<std::size_t>(labels.source[row])];
}

void Sweep::remove(const DeviceRecord& record, const AllocationLabels& labels, std::size_t row) {
  const AllocationColumns& rows = record.allocations;
  now_.remove(labels.source[row], rows.requested_bytes[row], rows.size_bytes[row]);
  allocated_ -= rows.size_bytes[row];
  if (labels.source_in_step(row) == MemorySource::activations) saved_ -= rows.requested_bytes[row];
  if (!labels.is_measured(row)) --inferred_[static_cast<std::size_t>(labels.source[row])];
}

void Sweep::sort_lifetimes(const SweptPart& part) {
  const AllocationColumns& rows = part.record.allocations;
  first_death_.clear();
  first_death_.resize(part.end - part.first, kNoRow);
  next_death_.clear();
  next_death_.resize(rows.size(), kNoRow);
  births_.clear();
  next_birth_ = 0;
  bool is_sorted = true;
  for (std::uint32_t row = 0; row < rows.size(); ++row) {
    const std::uint32_t birth = rows.alloc_event[row];
    const std::uint32_t death = rows.free_requested_event[row];
    if (birth != kNoEvent && birth >= part.first && birth < part.end) {
      is_sorted = is_sorted && (births_.empty() || rows.alloc_event[births_.back()] <= birth);
      births_.push_back(row);
    }
    if (death < part.first || death >= part.end) continue;
    next_death_[row] = first_death_[death - part.first];
    first_death_[death - part.first] = row;
  }
  if (is_sorted) return;
  std::sort(births_.begin(), births_.end(), [&](std::uint32_t a, std::uint32_t b) {
    return rows.alloc_event[a] < rows.alloc_event[b];
  });
}

// What was live before the first event. Blocks that only a stream still used then are not
// allocated; they die at event 0, so they are subtracted there.
void Sweep::start(const DeviceRecord& record, const AllocationLabels& labels,
                  DeviceSources& sources) {
  const AllocationColumns& rows = record.allocations;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    if (rows.alloc_event[row] == kNoEvent) add(record, labels, row);
  }
  SourceBytes first = now_;
  auto inferred = inferred_;
  for (const AllocationId row : rows.pending_at_start.span()) {
    first.remove(labels.source[row.index], rows.requested_bytes[row.index],
                 rows.size_bytes[row.index]);
    if (!labels.is_measured(row.index))
      --inferred[static_cast<std::size_t>(labels.source[row.index])];
  }
  for (std::size_t index = 0; index < kMemorySourceCount; ++index) {
    // Of a source that never holds anything, nothing is inferred.
    sources.figures[index].max_provenance =
        has_labels_ && inferred[index] == 0 ? Provenance::measured : Provenance::inferred;
    raise_maximum(sources.figures[index], first.by_source[index], kNoEvent, inferred[index]);
  }
  raise_maximum(sources.rounding, first.rounding, kNoEvent, 0);
}

void Sweep::step_over(const SweptPart& part, std::size_t index, DeviceSources& sources) {
  const AllocationColumns& rows = part.record.allocations;
  const std::uint32_t event = part.number + static_cast<std::uint32_t>(index - part.first);
  MemorySource born = MemorySource::unknown;
  const std::size_t before = next_birth_;
  for (; next_birth_ < births_.size() && rows.alloc_event[births_[next_birth_]] == index;
       ++next_birth_) {
    add(part.record, part.labels, births_[next_birth_]);
    born = part.labels.source[births_[next_birth_]];
  }
  for (std::uint32_t row = first_death_[index - part.first]; row != kNoRow; row = next_death_[row])
    remove(part.record, part.labels, row);
  if (next_birth_ != before) {
    const auto source = static_cast<std::size_t>(born);
    raise_maximum(sources.figures[source], now_[born], event, inferred_[source]);
    raise_maximum(sources.rounding, now_.rounding, event, 0);
  }
  if (pyramid_ != nullptr) pyramid_->note(event, allocated_, now_);
  note_series(event, sources.series);
  enter_span(event, sources);
  if (sources.phases.empty()) return;
  note_phase(event, next_birth_ != before ? std::optional(born) : std::nullopt,
             sources.phases.back());
}

void Sweep::note_series(std::uint32_t event, SourceSeries& series) {
  if (event < bucket_end_ && allocated_ <= bucket_peak_) return;
  if (event >= bucket_end_) {
    // Divisions take long: once for each bucket.
    const std::size_t points = std::min(series_points_, events_);
    const std::size_t bucket = std::size_t{event} * points / events_ + 1;
    bucket_end_ = (bucket * events_ + points - 1) / points;
    series.event.push_back(event);
    series.bytes.push_back(now_);
  } else {
    series.event.back() = event;
    series.bytes.back() = now_;
  }
  bucket_peak_ = allocated_;
}

void Sweep::enter_span(std::uint32_t event, DeviceSources& sources) {
  for (; span_ < sources.spans.size() && sources.spans[span_].first_event <= event; ++span_) {
    const PhaseSpan& span = sources.spans[span_];
    const bool continues = !sources.phases.empty() && sources.phases.back().phase == span.phase &&
                           sources.phases.back().step == span.step;
    if (continues) continue;
    PhaseFigures phase;
    phase.phase = span.phase;
    phase.step = span.step;
    phase.first_event = event;
    sources.phases.push_back(phase);
  }
}

void Sweep::note_phase(std::uint32_t event, std::optional<MemorySource> born,
                       PhaseFigures& phase) const {
  phase.last_event = event;
  phase.live_bytes = allocated_;
  if (phase.peak_event == kNoEvent) {
    phase.floor_bytes = allocated_;
    phase.most_by_source = now_.by_source;
  } else {
    phase.floor_bytes = std::min(phase.floor_bytes, allocated_);
    if (born) {
      std::uint64_t& most = phase.most_by_source[static_cast<std::size_t>(*born)];
      most = std::max(most, now_[*born]);
    }
  }
  if (phase.phase == Phase::forward) phase.saved_for_backward_bytes = saved_;
  if (phase.peak_event != kNoEvent && allocated_ <= phase.peak_bytes) return;
  phase.peak_bytes = allocated_;
  phase.peak_event = event;
  phase.at_peak = now_;
}

// What a forward holds at its end is saved for backward only if one follows.
void Sweep::forget_unneeded(DeviceSources& sources, std::size_t end) const {
  bool goes_backward = false;
  for (std::size_t row = sources.phases.size(); row-- > 0;) {
    PhaseFigures& phase = sources.phases[row];
    if (row >= summed_ && row < end && phase.phase == Phase::forward && !goes_backward)
      phase.saved_for_backward_bytes.reset();
    if (phase.phase != Phase::other) goes_backward = phase.phase == Phase::backward;
  }
}

void Sweep::sum_up_steps(std::size_t end, DeviceSources& sources) {
  for (std::uint32_t row = static_cast<std::uint32_t>(summed_); row < end; ++row) {
    const PhaseFigures& phase = sources.phases[row];
    if (sources.steps.empty() || sources.steps.back().step != phase.step) {
      StepFigures step;
      step.step = phase.step;
      step.first_event = phase.first_event;
      step.first_phase = row;
      sources.steps.push_back(step);
    }
    StepFigures& step = sources.steps.back();
    ++step.phase_count;
    step.last_event = phase.last_event;
    step.live_bytes = phase.live_bytes;
    step.floor_bytes = step.peak_event == kNoEvent ? phase.floor_bytes
                                                   : std::min(step.floor_bytes, phase.floor_bytes);
    for (std::size_t source = 0; source < kMemorySourceCount; ++source)
      step.most_by_source[source] =
          std::max(step.most_by_source[source], phase.most_by_source[source]);
    if (step.peak_event == kNoEvent || phase.peak_bytes > step.peak_bytes) {
      step.peak_bytes = phase.peak_bytes;
      step.peak_event = phase.peak_event;
      step.at_peak = phase.at_peak;
    }
    step.saved_for_backward_bytes =
        std::max(step.saved_for_backward_bytes, phase.saved_for_backward_bytes.value_or(0));
  }
  summed_ = end;
}

}  // namespace gpumemprof
