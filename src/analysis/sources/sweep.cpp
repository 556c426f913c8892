#include "analysis/sources/sweep.h"

#include <algorithm>
#include <ranges>

namespace gpumemprof {
namespace {

constexpr std::uint32_t kNoRow = AllocationId::kNone;

void raise_maximum(SourceFigure& figure, std::uint64_t bytes, std::uint32_t event) {
  if (bytes <= figure.bytes_max) return;
  figure.bytes_max = bytes;
  figure.max_event = event;
}

}  // namespace

Sweep::Sweep(const DeviceRecord& record, const AllocationLabels& labels,
             const SourcesOptions& options)
    : record_(record),
      labels_(labels),
      series_points_(std::max<std::size_t>(options.series_points, 1)) {}

void Sweep::run(DeviceSources& sources) {
  sort_lifetimes();
  start(sources);
  for (std::uint32_t event = 0; event < record_.events.size(); ++event) step_over(event, sources);
  forget_unneeded(sources);
  sum_up_steps(sources);
}

void Sweep::sort_lifetimes() {
  const AllocationColumns& rows = record_.allocations;
  first_death_.resize(record_.events.size(), kNoRow);
  next_death_.resize(rows.size(), kNoRow);
  bool is_sorted = true;
  for (std::uint32_t row = 0; row < rows.size(); ++row) {
    const std::uint32_t birth = rows.alloc_event[row];
    const std::uint32_t death = rows.free_requested_event[row];
    if (birth != kNoEvent) {
      is_sorted = is_sorted && (births_.empty() || rows.alloc_event[births_.back()] <= birth);
      births_.push_back(row);
    }
    if (death >= record_.events.size()) continue;
    next_death_[row] = first_death_[death];
    first_death_[death] = row;
  }
  if (is_sorted) return;
  std::sort(births_.begin(), births_.end(), [&](std::uint32_t a, std::uint32_t b) {
    return rows.alloc_event[a] < rows.alloc_event[b];
  });
}

// What was live before the first event. Blocks that only a stream still used then are not
// allocated; they die at event 0, so they are subtracted there.
void Sweep::start(DeviceSources& sources) {
  const AllocationColumns& rows = record_.allocations;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    if (rows.alloc_event[row] == kNoEvent) add(row);
  }
  SourceBytes first = now_;
  for (const AllocationId row : rows.pending_at_start.span()) {
    first.remove(labels_.source[row.index], rows.requested_bytes[row.index],
                 rows.size_bytes[row.index]);
  }
  for (std::size_t index = 0; index < kMemorySourceCount; ++index)
    raise_maximum(sources.figures[index], first.by_source[index], kNoEvent);
  raise_maximum(sources.rounding, first.rounding, kNoEvent);
}

void Sweep::step_over(std::uint32_t event, DeviceSources& sources) {
  const AllocationColumns& rows = record_.allocations;
  MemorySource born = MemorySource::unknown;
  const std::size_t before = next_birth_;
  for (; next_birth_ < births_.size() && rows.alloc_event[births_[next_birth_]] == event;
       ++next_birth_) {
    add(births_[next_birth_]);
    born = labels_.source[births_[next_birth_]];
  }
  for (std::uint32_t row = first_death_[event]; row != kNoRow; row = next_death_[row]) remove(row);
  if (next_birth_ != before) {
    raise_maximum(sources.figures[static_cast<std::size_t>(born)], now_[born], event);
    raise_maximum(sources.rounding, now_.rounding, event);
  }
  note_series(event, sources.series);
  enter_span(event, sources);
  if (!sources.phases.empty()) note_phase(event, sources.phases.back());
}

void Sweep::note_series(std::uint32_t event, SourceSeries& series) {
  const std::size_t events = record_.events.size();
  const std::size_t points = std::min(series_points_, events);
  const std::size_t bucket = std::size_t{event} * points / events + 1;
  if (bucket == bucket_ && allocated_ <= bucket_peak_) return;
  if (bucket != bucket_) {
    series.event.push_back(event);
    series.bytes.push_back(now_);
    bucket_ = bucket;
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

void Sweep::note_phase(std::uint32_t event, PhaseFigures& phase) const {
  phase.last_event = event;
  phase.live_bytes = allocated_;
  if (phase.phase == Phase::forward)
    phase.saved_for_backward_bytes = now_[MemorySource::activations];
  if (phase.peak_event != kNoEvent && allocated_ <= phase.peak_bytes) return;
  phase.peak_bytes = allocated_;
  phase.peak_event = event;
  phase.at_peak = now_;
}

// What a forward holds at its end is saved for backward only if one follows.
void Sweep::forget_unneeded(DeviceSources& sources) {
  bool goes_backward = false;
  for (PhaseFigures& phase : std::views::reverse(sources.phases)) {
    if (phase.phase == Phase::forward && !goes_backward) phase.saved_for_backward_bytes.reset();
    if (phase.phase != Phase::other) goes_backward = phase.phase == Phase::backward;
  }
}

void Sweep::sum_up_steps(DeviceSources& sources) {
  for (std::uint32_t row = 0; row < sources.phases.size(); ++row) {
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
    if (step.peak_event == kNoEvent || phase.peak_bytes > step.peak_bytes) {
      step.peak_bytes = phase.peak_bytes;
      step.peak_event = phase.peak_event;
      step.at_peak = phase.at_peak;
    }
    step.saved_for_backward_bytes =
        std::max(step.saved_for_backward_bytes, phase.saved_for_backward_bytes.value_or(0));
  }
}

}  // namespace gpumemprof
