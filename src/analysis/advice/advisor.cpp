#include "analysis/advice/advisor.h"

#include <algorithm>
#include <cmath>

#include "analysis/sources/code_kind.h"
#include "sim/simulate.h"

namespace gpumemprof {
namespace {

bool has(const std::vector<RemedyId>& remedies, RemedyId id) {
  return std::find(remedies.begin(), remedies.end(), id) != remedies.end();
}

std::uint64_t shifted(std::uint64_t predicted, std::uint64_t recorded, std::uint64_t simulated) {
  const std::uint64_t sum = predicted + recorded;
  return sum > simulated ? sum - simulated : 0;
}

PredictedBytes banded(std::uint64_t bytes, double below, double above) {
  const auto value = static_cast<double>(bytes);
  return {bytes, static_cast<std::uint64_t>(value * (1 - below)),
          static_cast<std::uint64_t>(value * (1 + above))};
}

bool needs_passes(RemedyId id) { return id != RemedyId::expandable_segments; }

// What a second recording at another batch makes sharper.
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

bool needs_stacks(RemedyId id) {
  return id == RemedyId::checkpointing || id == RemedyId::autocast_bf16 ||
         id == RemedyId::chunked_loss;
}

bool is_of_optimizer(RemedyId id) {
  switch (id) {
    case RemedyId::sgd:
    case RemedyId::sgd_momentum:
    case RemedyId::lion:
    case RemedyId::adafactor:
    case RemedyId::adam_8bit:
    case RemedyId::foreach_off:
    case RemedyId::fused:
    case RemedyId::step_in_backward:
    case RemedyId::offload_optimizer:
      return true;
    default:
      return false;
  }
}

}  // namespace

Advisor::Advisor(const Store& store, const DeviceRecord& record, const DeviceReplay& replay,
                 const std::vector<PhaseSpan>& spans, const DeviceWhatIf& proven,
                 std::optional<std::uint64_t> batch)
    : store_(store),
      record_(record),
      replay_(replay),
      proven_(proven),
      batch_(batch),
      facts_(store, record, spans),
      recorded_(facts_.tape(proven.verified.requests, proven.first_event)) {
  choose_blocks();
  baseline_ = picture(recorded_);
  baseline_.bytes = replay.peak.allocated_bytes;
  const Result<sim::SimulationResult> run = sim::simulate(recorded_.requests(), simulation({}));
  if (run) {
    simulated_allocated_ = run.value().peak_allocated_bytes;
    simulated_reserved_ = run.value().peak_reserved_bytes;
  }
  forward_seconds_ = facts_.seconds_in(Phase::forward);
  const std::optional<double> backward = facts_.seconds_in(Phase::backward);
  const std::optional<double> step = facts_.seconds_in(Phase::optimizer_step);
  if (forward_seconds_ && backward && step && *forward_seconds_ > 0 && *backward > 0)
    step_seconds_ = *forward_seconds_ + *backward + *step;
}

// Where loops lie inside loops, those whose checkpoints lower the peak most.
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
    const std::uint64_t peak = trial.tape.peak(rounding()).bytes;
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

// Copies of weights in half precision, made in forward: half a parameter's size, at a product.
bool Advisor::is_autocast_already() const {
  std::size_t products = 0;
  std::size_t copies = 0;
  for (const ForwardPass& pass : facts_.passes()) {
    for (const Operation& operation : pass.operations) {
      if (operation.kind != OpKind::matmul) continue;
      ++products;
      const std::uint64_t bytes = facts_.bytes(pass.forward[operation.first]);
      const bool is_copy = operation.count > 1 && facts_.is_parameter_size(2 * bytes);
      copies += is_copy ? 1 : 0;
    }
  }
  return products > 0 && 3 * copies > products;
}

bool Advisor::is_checkpointed_already() const {
  const std::vector<CodeKind> kinds = code_kinds(store_);
  for (const ForwardPass& pass : facts_.passes()) {
    for (const std::uint32_t row : pass.backward) {
      const StackId stack = record_.allocations.stack[row];
      if (!stack.is_none() && kinds[stack.index] == CodeKind::recompute) return true;
    }
  }
  return false;
}

// Many parts need a batch that can be cut so; two and four are taken for granted.
std::optional<std::string> Advisor::batch_obstacle(std::uint64_t parts) const {
  constexpr std::uint64_t kUsualParts = 4;
  if (!batch_ && parts > kUsualParts)
    return "Whether a batch can be cut into " + std::to_string(parts) +
           " is not recorded; say how many samples it has with --batch.";
  if (batch_ && *batch_ % parts != 0)
    return "A batch of " + std::to_string(*batch_) + " cannot be cut into " +
           std::to_string(parts) + " equal parts.";
  return std::nullopt;
}

std::optional<std::string> Advisor::obstacle(RemedyId id) const {
  if (id == RemedyId::micro_batch_x0_5 || id == RemedyId::batch_x0_5) {
    if (const auto found = batch_obstacle(2)) return found;
  }
  if (id == RemedyId::micro_batch_x0_25) {
    if (const auto found = batch_obstacle(4)) return found;
  }
  if (id == RemedyId::micro_batch_x0_125) {
    if (const auto found = batch_obstacle(8)) return found;
  }
  if (needs_passes(id) && facts_.passes().empty())
    return "The recording shows no forward pass; record a few whole training steps with stacks.";
  if (needs_stacks(id) && !facts_.has_stacks())
    return "The recording has no stacks; record with gpumemprof run, or with "
           "_record_memory_history(stacks=\"python\").";
  if (is_of_optimizer(id) && facts_.optimizer_steps().empty())
    return "The recording holds no optimizer step; record one to its end.";
  if (is_of_optimizer(id) && facts_.parameters().empty())
    return "The recording does not tell parameters; record from before the model is built.";
  if (id == RemedyId::checkpointing && is_checkpointed_already())
    return "The run recomputes activations in backward already.";
  if (id == RemedyId::checkpointing && blocks_.empty())
    return "No line of the model calls modules again and again, so there are no blocks to "
           "checkpoint by.";
  if (id == RemedyId::autocast_bf16 && is_autocast_already())
    return "The run uses autocast already.";
  if (id == RemedyId::expandable_segments && rounding() == nullptr)
    return "The CPU's memory has no segments.";
  if (id == RemedyId::expandable_segments && store_.settings().expandable_segments)
    return "The run uses expandable segments already.";
  if (id == RemedyId::chunked_loss) {
    Rewrite trial(facts_, recorded_);
    if (!chunk_loss(trial, 8)) return "No loss over large logits is seen in the recording.";
  }
  return std::nullopt;
}

Rewrite Advisor::rewrite(const std::vector<RemedyId>& remedies, double batch_factor) const {
  Rewrite changed(facts_, recorded_);
  apply(changed, remedies, blocks_);
  if (batch_factor != 1) scale_batch(changed, batch_factor);
  return changed;
}

sim::SimulationOptions Advisor::simulation(const std::vector<RemedyId>& remedies) const {
  sim::SimulationOptions options;
  options.settings = store_.settings();
  options.rules = sim::rules_for(proven_.version);
  if (has(remedies, RemedyId::expandable_segments)) options.settings.expandable_segments = true;
  options.settings.settle();
  return options;
}

const AllocatorSettings* Advisor::rounding() const {
  return store_.origin().device_type == "cpu" ? nullptr : &store_.settings();
}

PeakPicture Advisor::picture(const Tape& tape) const {
  const TapePeak peak = tape.peak(rounding());
  PeakPicture picture;
  picture.bytes = peak.bytes;
  const std::uint32_t event = event_of(peak.key);
  picture.phase = facts_.phase_at(event);
  for (const TapeRow& row : tape.rows) {
    if (!row.is_there() || row.birth > peak.key || row.death <= peak.key) continue;
    const std::uint64_t block =
        rounding() == nullptr ? row.size_bytes : rounding()->round_size(row.size_bytes);
    picture.by_source.add(row.source, row.size_bytes, block);
  }
  return picture;
}

double Advisor::band_of(const std::vector<RemedyId>& remedies) const {
  double sum = 0;
  for (const RemedyId id : remedies) {
    const bool is_sharp = facts_.growth().is_known() && changes_batch(id);
    sum += is_sharp ? facts_of(id).band / 2 : facts_of(id).band;
  }
  if (!facts_.has_stacks()) sum *= 3;
  if (proven_.first_event > 0) sum *= 1.5;
  return std::min(sum, 0.9);
}

Result<Prediction> Advisor::predict(const std::vector<RemedyId>& remedies,
                                    std::uint64_t limit_bytes) const {
  const Rewrite changed = rewrite(remedies, 1);
  const double band = band_of(remedies);
  Prediction prediction;
  prediction.at_peak = picture(changed.tape);
  prediction.allocated = banded(prediction.at_peak.bytes, band, band);
  if (rounding() != nullptr) {
    sim::SimulationOptions options = simulation(remedies);
    options.limit.allowed_bytes = limit_bytes;
    const Result<sim::SimulationResult> run = sim::simulate(changed.tape.requests(), options);
    if (!run) return run.error();
    take_run(run.value(), band, limit_bytes, prediction);
  }
  prediction.allocated.high_bytes += changed.doubtful_high_bytes;
  prediction.allocated.low_bytes -=
      std::min(prediction.allocated.low_bytes, changed.doubtful_low_bytes);
  if (prediction.reserved) prediction.reserved->high_bytes += changed.doubtful_high_bytes;
  return prediction;
}

void Advisor::take_run(const sim::SimulationResult& run, double band, std::uint64_t limit_bytes,
                       Prediction& prediction) const {
  prediction.allocated =
      banded(shifted(run.peak_allocated_bytes, replay_.peak.allocated_bytes, simulated_allocated_),
             band, band);
  // Where memory lies in the pool hangs on the order of every request.
  constexpr double kReservedBand = 0.05;
  PredictedBytes reserved =
      banded(shifted(run.peak_reserved_bytes, replay_.peak_reserved_bytes, simulated_reserved_),
             band + kReservedBand, 2 * band + kReservedBand);
  reserved.low_bytes = std::max(reserved.low_bytes, prediction.allocated.low_bytes);
  for (std::uint64_t* bytes : {&reserved.bytes, &reserved.low_bytes, &reserved.high_bytes})
    *bytes = std::min(*bytes, limit_bytes);
  prediction.reserved = reserved;
}

bool Advisor::fits(const std::vector<RemedyId>& remedies, double batch_factor,
                   std::uint64_t limit_bytes) const {
  const Rewrite changed = rewrite(remedies, batch_factor);
  double band = band_of(remedies);
  if (batch_factor != 1) band += facts_of(RemedyId::batch_x2).band;
  const auto room = static_cast<std::uint64_t>(static_cast<double>(limit_bytes) / (1 + band));
  if (changed.tape.peak(rounding()).bytes > room) return false;
  if (rounding() == nullptr) return true;
  sim::SimulationOptions options = simulation(remedies);
  options.limit = {room, sim::kNoLimit};
  options.stops_at_first_oom = true;
  const Result<sim::SimulationResult> run = sim::simulate(changed.tape.requests(), options);
  return run && run.value().is_complete;
}

std::optional<double> Advisor::slowdown_pct(RemedyId id) const {
  if (!step_seconds_ || !forward_seconds_) return std::nullopt;
  // Every checkpointed block runs its forward once more.
  if (id == RemedyId::checkpointing) return 100 * *forward_seconds_ / *step_seconds_;
  return std::nullopt;
}

}  // namespace gpumemprof
