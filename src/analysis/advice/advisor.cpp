#include "analysis/advice/advisor.h"

#include <algorithm>

#include "analysis/advice/remedies/remedy.h"

namespace gpumemprof {
namespace {

std::uint64_t shifted(std::uint64_t predicted, std::uint64_t recorded, std::uint64_t simulated) {
  const std::uint64_t sum = predicted + recorded;
  return sum > simulated ? sum - simulated : 0;
}

PredictedBytes banded(std::uint64_t bytes, double below, double above) {
  const auto value = static_cast<double>(bytes);
  return {bytes, static_cast<std::uint64_t>(value * (1 - below)),
          static_cast<std::uint64_t>(value * (1 + above))};
}

// It changes how much a step allocates, and so may change how much of it is kept.
bool is_resizing(const RemedySpec* remedy) {
  return remedy->batch_factor != 1 || remedy->sequence_factor != 1 ||
         remedy->aspect == Aspect::precision;
}

bool is_enlarging(const RemedySpec* remedy) {
  return remedy->batch_factor > 1 || remedy->sequence_factor > 1;
}

}  // namespace

Advisor::Advisor(const AdvisedRun& run, const DeviceReplay& replay)
    : run_(run),
      baseline_(picture(run.recorded())),
      has_run_out_(replay.counters.ooms > 0),
      peak_allocated_(replay.peak.allocated_bytes),
      peak_reserved_(replay.peak_reserved_bytes) {
  const Result<sim::SimulationResult> simulated =
      sim::simulate(run.recorded().requests(), simulation({}));
  if (simulated) {
    simulated_allocated_ = simulated.value().peak_allocated_bytes;
    simulated_reserved_ = simulated.value().peak_reserved_bytes;
    segment_requests_ = simulated.value().counters.num_device_alloc;
  }
  if (run.end().completed) {
    // Nothing in the recording says what the whole run would have taken.
    peak_allocated_ = run.rounding() == nullptr ? baseline_.bytes : simulated_allocated_;
    peak_reserved_ = simulated_reserved_;
  }
  baseline_.bytes = peak_allocated_;
}

Rewrite Advisor::rewrite(const Change& change) const {
  Rewrite changed(run_.facts(), run_.recorded());
  apply(run_, change, changed);
  doubt_growth(change, changed);
  if (const std::optional<CompletedRun>& completed = run_.end().completed)
    changed.doubtful_low_bytes += completed->doubtful_low_bytes;
  return changed;
}

sim::SimulationOptions Advisor::simulation(const Change& change) const {
  sim::SimulationOptions options;
  options.settings = run_.store().settings();
  options.rules = sim::rules_for(run_.torch_version());
  for (const RemedySpec* remedy : change.remedies) {
    if (remedy->change_settings != nullptr) remedy->change_settings(options.settings);
  }
  options.settings.settle();
  return options;
}

PeakPicture Advisor::picture(const AllocationTimeline& timeline) const {
  const TimelinePeak peak = timeline.peak(run_.rounding());
  PeakPicture picture;
  picture.bytes = peak.bytes;
  const std::uint32_t event = event_of(peak.key);
  picture.phase = run_.facts().phase_at(event);
  for (const TimelineRow& row : timeline.rows) {
    if (!row.is_there() || row.birth > peak.key || row.death <= peak.key) continue;
    const std::uint64_t block =
        run_.rounding() == nullptr ? row.size_bytes : run_.rounding()->round_size(row.size_bytes);
    picture.by_source.add(row.source, row.size_bytes, block);
  }
  return picture;
}

void Advisor::doubt_growth(const Change& change, Rewrite& changed) const {
  const Growth& growth = run_.growth();
  const std::vector<const RemedySpec*>& remedies = change.remedies;
  if (!growth.is_growing) return;
  const bool resizes = change.batch_factor != 1 || change.sequence_factor != 1 ||
                       std::any_of(remedies.begin(), remedies.end(), is_resizing);
  if (!resizes) return;
  changed.doubtful_low_bytes += growth.grown_bytes;
  const bool enlarges = change.batch_factor > 1 || change.sequence_factor > 1 ||
                        std::any_of(remedies.begin(), remedies.end(), is_enlarging);
  if (enlarges) changed.doubtful_high_bytes += growth.grown_bytes;
}

Result<Prediction> Advisor::predict(const Change& change, std::uint64_t limit_bytes) const {
  const Rewrite changed = rewrite(change);
  const double band = band_of(run_, change);
  Prediction prediction;
  prediction.at_peak = picture(changed.timeline);
  prediction.allocated = banded(prediction.at_peak.bytes, band, band);
  if (run_.rounding() != nullptr) {
    sim::SimulationOptions options = simulation(change);
    options.limit.allowed_bytes = limit_bytes;
    const Result<sim::SimulationResult> run = sim::simulate(changed.timeline.requests(), options);
    if (!run) return run.error();
    take_run(run.value(), band, limit_bytes, prediction);
    prediction.segment_requests = run.value().counters.num_device_alloc;
  }
  prediction.allocated.high_bytes += changed.doubtful_high_bytes;
  prediction.allocated.low_bytes -=
      std::min(prediction.allocated.low_bytes, changed.doubtful_low_bytes + changed.pageable_bytes);
  if (prediction.reserved) {
    PredictedBytes& reserved = *prediction.reserved;
    reserved.high_bytes = std::min(reserved.high_bytes + changed.doubtful_high_bytes, limit_bytes);
    reserved.low_bytes -= std::min(reserved.low_bytes, changed.pageable_bytes);
  }
  return prediction;
}

Result<sim::AllocatedCurve> Advisor::curve(const Change& change,
                                           std::uint32_t events_per_point) const {
  const Rewrite changed = rewrite(change);
  if (run_.rounding() == nullptr) return changed.timeline.requested_curve(events_per_point);
  sim::AllocatedCurve curve{events_per_point, {}};
  sim::SimulationOptions options = simulation(change);
  options.curve = &curve;
  const Result<sim::SimulationResult> run = sim::simulate(changed.timeline.requests(), options);
  if (!run) return run.error();
  // As the peak is: by what the simulation of the recorded run differs from the recording.
  for (std::uint64_t& bytes : curve.most_bytes)
    bytes = shifted(bytes, peak_allocated_, simulated_allocated_);
  return curve;
}

void Advisor::take_run(const sim::SimulationResult& run, double band, std::uint64_t limit_bytes,
                       Prediction& prediction) const {
  prediction.allocated =
      banded(shifted(run.peak_allocated_bytes, peak_allocated_, simulated_allocated_), band, band);
  // Where memory is placed in the pool depends on the order of every request.
  constexpr double kReservedBand = 0.05;
  PredictedBytes reserved =
      banded(shifted(run.peak_reserved_bytes, peak_reserved_, simulated_reserved_),
             band + kReservedBand, 2 * band + kReservedBand);
  reserved.low_bytes = std::max(reserved.low_bytes, prediction.allocated.low_bytes);
  for (std::uint64_t* bytes : {&reserved.bytes, &reserved.low_bytes, &reserved.high_bytes})
    *bytes = std::min(*bytes, limit_bytes);
  prediction.reserved = reserved;
}

std::uint64_t Advisor::needed_bytes(const Change& change) const {
  const Rewrite changed = rewrite(change);
  const auto peak = static_cast<double>(changed.timeline.peak(run_.rounding()).bytes);
  return static_cast<std::uint64_t>(peak * (1 + band_of(run_, change))) +
         changed.doubtful_high_bytes;
}

bool Advisor::fits(const Change& change, std::uint64_t limit_bytes) const {
  const Rewrite changed = rewrite(change);
  const double band = band_of(run_, change);
  const std::uint64_t doubtful = std::min(limit_bytes, changed.doubtful_high_bytes);
  const auto room =
      static_cast<std::uint64_t>(static_cast<double>(limit_bytes - doubtful) / (1 + band));
  if (changed.timeline.peak(run_.rounding()).bytes > room) return false;
  if (run_.rounding() == nullptr) return true;
  sim::SimulationOptions options = simulation(change);
  options.limit = {room, sim::kNoLimit};
  options.stops_at_first_oom = true;
  const Result<sim::SimulationResult> run = sim::simulate(changed.timeline.requests(), options);
  return run && run.value().is_complete;
}

}  // namespace gpumemprof
