// What remedies add to the time of a step, from the recorded phases.
#include <algorithm>

#include "analysis/advice/advisor.h"

namespace gpumemprof {
namespace {

// From the widely cited article: 20 to 30 % of a step. Only if the recording has no times.
constexpr double kCheckpointingRuleOfThumb = 25;
// What a PCIe 4.0 x16 link transfers to and from pinned memory: which link the machine has is not
// recorded.
constexpr double kLinkBytesPerSecond = 25e9;

std::uint64_t saved_bytes(const RunFacts& facts) {
  std::uint64_t most = 0;
  for (const ForwardPass& pass : facts.passes()) {
    std::uint64_t sum = 0;
    for (const std::uint32_t row : pass.forward) {
      const bool is_moved =
          facts.source(row) == MemorySource::activations && facts.is_saved(pass, row);
      sum += is_moved ? facts.bytes(row) : 0;
    }
    most = std::max(most, sum);
  }
  return most;
}

}  // namespace

// The share of forward that the chosen blocks take: by the times of its requests, or, without
// times, by their number. After the last request a program may wait for the device: that is not
// counted.
double Advisor::forward_share(const Change& change) const {
  const Column<std::int64_t>& times = record_.events.time_ns;
  double in_blocks = 0;
  double all = 0;
  double blocks_requests = 0;
  double requests = 0;
  const auto time_at = [&](const ForwardPass& pass, std::uint32_t place) {
    const std::size_t last = pass.forward.size() - 1;
    const std::uint32_t event = facts_.birth(pass.forward[std::min<std::size_t>(place, last)]);
    return event < times.size() ? times[event] : kUnknownTime;
  };
  const auto span = [&](const ForwardPass& pass, std::uint32_t from, std::uint32_t to) {
    const std::int64_t first = time_at(pass, from);
    const std::int64_t last = time_at(pass, to);
    const bool is_known = first != kUnknownTime && last != kUnknownTime;
    return is_known ? static_cast<double>(last - first) : 0.0;
  };
  // The first step is warm-up.
  const std::uint32_t first_pass = facts_.passes().size() > 1 ? 1 : 0;
  const auto is_timed = [&](std::uint32_t index) {
    const ForwardPass& pass = facts_.passes()[index];
    return index >= first_pass && pass.has_backward() && !pass.forward.empty();
  };
  for (std::uint32_t index = 0; index < facts_.passes().size(); ++index) {
    if (!is_timed(index)) continue;
    const ForwardPass& pass = facts_.passes()[index];
    const auto end = static_cast<std::uint32_t>(pass.forward.size());
    all += span(pass, 0, end);
    requests += end;
  }
  for (const RepeatedBlock& block : blocks_) {
    if (!is_timed(block.pass) || !change.recomputes(block.ordinal)) continue;
    in_blocks += span(facts_.passes()[block.pass], block.first, block.end);
    blocks_requests += block.end - block.first;
  }
  if (all > 0) return std::clamp(in_blocks / all, 0.0, 1.0);
  return requests > 0 ? std::clamp(blocks_requests / requests, 0.0, 1.0) : 1;
}

// Every checkpointed block runs its forward once more.
std::optional<Slowdown> Advisor::checkpointing_slowdown(const Change& change) const {
  const double share = forward_share(change);
  if (step_seconds_ && forward_seconds_)
    return Slowdown{100 * share * *forward_seconds_ / *step_seconds_, true};
  const double of_all = forward_share({change.remedies, std::nullopt, 1, 1});
  const double of_blocks = of_all > 0 ? share / of_all : 1;
  return Slowdown{kCheckpointingRuleOfThumb * of_blocks, false};
}

// As if nothing was computed in the meantime. Only a GPU has a link.
std::optional<Slowdown> Advisor::transfer_slowdown(std::uint64_t bytes_per_pass) const {
  if (!step_seconds_ || *step_seconds_ <= 0 || rounding() == nullptr) return std::nullopt;
  const std::size_t passes = facts_.passes().size();
  const auto timed = static_cast<double>(passes > 1 ? passes - 1 : passes);
  const double seconds = static_cast<double>(bytes_per_pass) * timed / kLinkBytesPerSecond;
  return Slowdown{100 * seconds / *step_seconds_, false};
}

// The sum of what is known; none if nothing is.
std::optional<Slowdown> Advisor::slowdown(const Change& change) const {
  std::optional<Slowdown> sum;
  const auto add = [&](const std::optional<Slowdown>& part) {
    if (!part) return;
    const bool is_measured = part->is_measured && (!sum || sum->is_measured);
    sum = Slowdown{(sum ? sum->pct : 0) + part->pct, is_measured};
  };
  if (change.has(RemedyId::checkpointing)) add(checkpointing_slowdown(change));
  // To the host and back.
  if (change.has(RemedyId::offload_activations)) add(transfer_slowdown(2 * saved_bytes(facts_)));
  // Gradients to the host, weights back; the time of the host's step comes on top and is not known.
  if (change.has(RemedyId::offload_optimizer)) add(transfer_slowdown(2 * facts_.parameter_bytes()));
  return sum;
}

}  // namespace gpumemprof
