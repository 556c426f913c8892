#include "analysis/advice/advisor.h"

#include <algorithm>
#include <cmath>

#include "analysis/advice/remedies/activations/block_code.h"
#include "analysis/advice/run/block_modules.h"
#include "sim/simulate.h"

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

// What a second recording at another batch size predicts more precisely.
bool changes_batch(RemedyId id) {
  switch (id) {
    case RemedyId::batch_x0_5:
    case RemedyId::batch_x2:
    case RemedyId::micro_batch_x0_5:
    case RemedyId::micro_batch_x0_25:
    case RemedyId::micro_batch_x0_125:
      return true;
    default:
      return false;
  }
}

// It changes how much a step allocates, and so may change how much of it is kept.
bool is_resizing(RemedyId id) {
  return changes_batch(id) || id == RemedyId::sequence_x0_5 || id == RemedyId::sequence_x2 ||
         id == RemedyId::autocast_bf16 || id == RemedyId::autocast_fp16 ||
         id == RemedyId::pure_bf16;
}

bool changes_sequence(RemedyId id) {
  return id == RemedyId::sequence_x0_5 || id == RemedyId::sequence_x2;
}

}  // namespace

Advisor::Advisor(const AdvisorInput& input)
    : store_(input.store),
      record_(input.end.completed ? input.end.completed->record : input.record),
      proven_(input.proven),
      growth_(input.growth),
      end_(input.end),
      batch_(input.batch),
      facts_(store_, record_, input.end.completed ? input.end.completed->spans : input.spans,
             input.growth.rows),
      recorded_(facts_.timeline(proven_.verified.requests, proven_.first_event)),
      sequence_(find_sequence(facts_)),
      has_run_out_(input.replay.counters.ooms > 0),
      peak_allocated_(input.replay.peak.allocated_bytes),
      peak_reserved_(input.replay.peak_reserved_bytes) {
  if (end_.completed) drop_commands_behind(end_.completed->resumed_at);
  choose_blocks();
  block_modules_ = find_block_modules(facts_, blocks_);
  block_list_ = find_block_list(store_, blocks_per_pass(), block_modules_);
  baseline_ = picture(recorded_);
  const Result<sim::SimulationResult> run = sim::simulate(recorded_.requests(), simulation({}));
  if (run) {
    simulated_allocated_ = run.value().peak_allocated_bytes;
    simulated_reserved_ = run.value().peak_reserved_bytes;
    segment_requests_ = run.value().counters.num_device_alloc;
  }
  if (end_.completed) {
    // Nothing in the recording says what the whole run would have taken.
    peak_allocated_ = rounding() == nullptr ? baseline_.bytes : simulated_allocated_;
    peak_reserved_ = simulated_reserved_;
  }
  baseline_.bytes = peak_allocated_;
  forward_seconds_ = facts_.seconds_in(Phase::forward);
  const std::optional<double> backward = facts_.seconds_in(Phase::backward);
  const std::optional<double> step = facts_.seconds_in(Phase::optimizer_step);
  if (forward_seconds_ && backward && step && *forward_seconds_ > 0 && *backward > 0)
    step_seconds_ = *forward_seconds_ + *backward + *step;
}

// What the program asked of the allocator after it ran out of memory.
void Advisor::drop_commands_behind(std::uint32_t event) {
  std::erase_if(recorded_.commands,
                [&](const TimelineCommand& command) { return command.key >= at_event(event); });
}

// For nested loops, picks those whose checkpoints lower the peak most.
void Advisor::choose_blocks() {
  constexpr std::uint32_t kDeepest = 3;
  std::uint64_t least = 0;
  std::size_t last_count = 0;
  for (std::uint32_t depth = 0; depth < kDeepest; ++depth) {
    std::vector<RepeatedBlock> blocks = find_blocks(facts_, depth);
    if (blocks.size() == last_count) break;
    last_count = blocks.size();
    Rewrite trial(facts_, recorded_);
    checkpoint_blocks(trial, blocks);
    const std::uint64_t peak = trial.timeline.peak(rounding()).bytes;
    if (least != 0 && peak >= least) continue;
    least = peak;
    blocks_ = std::move(blocks);
  }
}

std::size_t Advisor::blocks_per_pass() const {
  std::size_t most = 0;
  std::size_t now = 0;
  for (std::size_t index = 0; index < blocks_.size(); ++index) {
    now = index > 0 && blocks_[index].pass == blocks_[index - 1].pass ? now + 1 : 1;
    most = std::max(most, now);
  }
  return most;
}

// What a block saves for backward, over all passes.
std::vector<std::uint32_t> Advisor::blocks_by_saving() const {
  std::vector<std::uint64_t> saved(blocks_per_pass(), 0);
  for (const RepeatedBlock& block : blocks_) {
    const ForwardPass& pass = facts_.passes()[block.pass];
    for (std::uint32_t place = block.first; place < block.end; ++place) {
      const std::uint32_t row = pass.forward[place];
      if (facts_.source(row) == MemorySource::activations && facts_.is_saved(pass, row))
        saved[block.ordinal] += facts_.bytes(row);
    }
  }
  std::vector<std::uint32_t> order(saved.size());
  for (std::uint32_t index = 0; index < order.size(); ++index) order[index] = index;
  // Among blocks that save about the same, the first: backward reaches it last, when most is freed.
  const auto rank = [&](std::uint32_t ordinal) {
    return std::lround(8 * std::log2(static_cast<double>(saved[ordinal] + 1)));
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return rank(a) > rank(b); });
  return order;
}

bool Advisor::compare(const RunFacts& other) {
  if (facts_.compare_sequences(other)) return true;
  facts_.compare_batches(other);
  return facts_.growth().is_known();
}

Rewrite Advisor::rewrite(const Change& change) const {
  Rewrite changed(facts_, recorded_);
  apply(changed, change, blocks_);
  doubt_growth(change, changed);
  if (end_.completed) changed.doubtful_low_bytes += end_.completed->doubtful_low_bytes;
  return changed;
}

sim::SimulationOptions Advisor::simulation(const Change& change) const {
  sim::SimulationOptions options;
  options.settings = store_.settings();
  options.rules = sim::rules_for(proven_.version);
  if (change.has(RemedyId::expandable_segments)) options.settings.expandable_segments = true;
  options.settings.settle();
  return options;
}

const AllocatorSettings* Advisor::rounding() const {
  return store_.facts().has_pool() ? &store_.settings() : nullptr;
}

PeakPicture Advisor::picture(const AllocationTimeline& timeline) const {
  const TimelinePeak peak = timeline.peak(rounding());
  PeakPicture picture;
  picture.bytes = peak.bytes;
  const std::uint32_t event = event_of(peak.key);
  picture.phase = facts_.phase_at(event);
  for (const TimelineRow& row : timeline.rows) {
    if (!row.is_there() || row.birth > peak.key || row.death <= peak.key) continue;
    const std::uint64_t block =
        rounding() == nullptr ? row.size_bytes : rounding()->round_size(row.size_bytes);
    picture.by_source.add(row.source, row.size_bytes, block);
  }
  return picture;
}

double Advisor::band_of(const Change& change) const {
  double sum = 0;
  for (const RemedyId id : change.remedies) {
    const bool is_sharp = (facts_.growth().is_known() && changes_batch(id)) ||
                          (facts_.sequence_growth().is_known() && changes_sequence(id));
    sum += is_sharp ? facts_of(id).band / 2 : facts_of(id).band;
  }
  if (change.batch_factor != 1) sum += facts_of(RemedyId::batch_x2).band;
  if (change.sequence_factor != 1) sum += facts_of(RemedyId::sequence_x2).band;
  // A step completed from another one: any difference between them cannot be seen.
  constexpr double kCompleted = 0.02;
  constexpr double kCompletedInAnotherSize = 0.06;
  if (end_.completed) sum += end_.completed->is_scaled ? kCompletedInAnotherSize : kCompleted;
  if (!facts_.has_stacks()) sum *= 3;
  if (proven_.first_event > 0) sum *= 1.5;
  return std::min(sum, 0.9);
}

void Advisor::doubt_growth(const Change& change, Rewrite& changed) const {
  if (!growth_.is_growing) return;
  const bool resizes = change.batch_factor != 1 || change.sequence_factor != 1 ||
                       std::any_of(change.remedies.begin(), change.remedies.end(), is_resizing);
  if (!resizes) return;
  changed.doubtful_low_bytes += growth_.grown_bytes;
  const bool is_larger = change.batch_factor > 1 || change.sequence_factor > 1 ||
                         change.has(RemedyId::batch_x2) || change.has(RemedyId::sequence_x2);
  if (is_larger) changed.doubtful_high_bytes += growth_.grown_bytes;
}

Result<Prediction> Advisor::predict(const Change& change, std::uint64_t limit_bytes) const {
  const Rewrite changed = rewrite(change);
  const double band = band_of(change);
  Prediction prediction;
  prediction.at_peak = picture(changed.timeline);
  prediction.allocated = banded(prediction.at_peak.bytes, band, band);
  if (rounding() != nullptr) {
    sim::SimulationOptions options = simulation(change);
    options.limit.allowed_bytes = limit_bytes;
    const Result<sim::SimulationResult> run = sim::simulate(changed.timeline.requests(), options);
    if (!run) return run.error();
    take_run(run.value(), band, limit_bytes, prediction);
    prediction.segment_requests = run.value().counters.num_device_alloc;
  }
  prediction.allocated.high_bytes += changed.doubtful_high_bytes;
  prediction.allocated.low_bytes -=
      std::min(prediction.allocated.low_bytes, changed.doubtful_low_bytes);
  if (prediction.reserved) {
    std::uint64_t& high = prediction.reserved->high_bytes;
    high = std::min(high + changed.doubtful_high_bytes, limit_bytes);
  }
  return prediction;
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
  const auto peak = static_cast<double>(changed.timeline.peak(rounding()).bytes);
  return static_cast<std::uint64_t>(peak * (1 + band_of(change))) + changed.doubtful_high_bytes;
}

bool Advisor::fits(const Change& change, std::uint64_t limit_bytes) const {
  const Rewrite changed = rewrite(change);
  const double band = band_of(change);
  const std::uint64_t doubtful = std::min(limit_bytes, changed.doubtful_high_bytes);
  const auto room =
      static_cast<std::uint64_t>(static_cast<double>(limit_bytes - doubtful) / (1 + band));
  if (changed.timeline.peak(rounding()).bytes > room) return false;
  if (rounding() == nullptr) return true;
  sim::SimulationOptions options = simulation(change);
  options.limit = {room, sim::kNoLimit};
  options.stops_at_first_oom = true;
  const Result<sim::SimulationResult> run = sim::simulate(changed.timeline.requests(), options);
  return run && run.value().is_complete;
}

}  // namespace gpumemprof
