// checkpointing: every repeated block saves its input only and is recomputed in backward.
#include <algorithm>

#include "analysis/advice/remedies/activations/block_code.h"
#include "analysis/advice/remedies/activations/recomputation.h"
#include "analysis/advice/remedies/list.h"

namespace gpumemprof::remedies {
namespace {

constexpr std::string_view kCheckpointingCode =
    "from torch.utils.checkpoint import checkpoint\n"
    "for block in self.blocks:\n"
    "    x = checkpoint(block, x, use_reentrant=False)";

std::optional<std::string> checkpointing_obstacle(const AdvisedRun& run) {
  if (is_checkpointed(run.facts())) return "The run already recomputes activations in backward.";
  if (run.blocks().empty())
    return "No line of the model calls modules repeatedly, so there are no blocks to checkpoint.";
  return std::nullopt;
}

void checkpointing_rewrite(const AdvisedRun& run, const Change& change, Rewrite& changed) {
  std::vector<RepeatedBlock> chosen = run.blocks();
  std::erase_if(chosen,
                [&](const RepeatedBlock& block) { return !change.has_block(block.ordinal); });
  checkpoint_blocks(changed, chosen);
}

// Sums over the passes that are timed: all but the first, which is warm-up.
class ForwardShare {
 public:
  explicit ForwardShare(const AdvisedRun& run) : run_(run), facts_(run.facts()) {}

  // The share of forward that the chosen blocks take: by the times of its requests, or, without
  // times, by their number. After the last request a program may wait for the device: that is not
  // counted.
  [[nodiscard]] double of(const Change& change) const {
    double in_blocks = 0;
    double all = 0;
    double blocks_requests = 0;
    double requests = 0;
    for (std::uint32_t index = 0; index < facts_.passes().size(); ++index) {
      if (!is_timed(index)) continue;
      const ForwardPass& pass = facts_.passes()[index];
      const auto end = static_cast<std::uint32_t>(pass.forward.size());
      all += span(pass, 0, end);
      requests += end;
    }
    for (const RepeatedBlock& block : run_.blocks()) {
      if (!is_timed(block.pass) || !change.has_block(block.ordinal)) continue;
      in_blocks += span(facts_.passes()[block.pass], block.first, block.end);
      blocks_requests += block.end - block.first;
    }
    if (all > 0) return std::clamp(in_blocks / all, 0.0, 1.0);
    return requests > 0 ? std::clamp(blocks_requests / requests, 0.0, 1.0) : 1;
  }

 private:
  [[nodiscard]] bool is_timed(std::uint32_t index) const {
    const std::uint32_t first = facts_.passes().size() > 1 ? 1 : 0;
    const ForwardPass& pass = facts_.passes()[index];
    return index >= first && pass.has_backward() && !pass.forward.empty();
  }
  [[nodiscard]] std::int64_t time_at(const ForwardPass& pass, std::uint32_t place) const {
    const Column<std::int64_t>& times = facts_.record().events.time_ns;
    const std::size_t last = pass.forward.size() - 1;
    const std::uint32_t event = facts_.birth(pass.forward[std::min<std::size_t>(place, last)]);
    return event < times.size() ? times[event] : kUnknownTime;
  }
  [[nodiscard]] double span(const ForwardPass& pass, std::uint32_t from, std::uint32_t to) const {
    const std::int64_t first = time_at(pass, from);
    const std::int64_t last = time_at(pass, to);
    const bool is_known = first != kUnknownTime && last != kUnknownTime;
    return is_known ? static_cast<double>(last - first) : 0.0;
  }

  const AdvisedRun& run_;
  const RunFacts& facts_;
};

// Every checkpointed block runs its forward once more.
std::optional<Slowdown> checkpointing_slowdown(const AdvisedRun& run, const Change& change) {
  const ForwardShare share(run);
  const std::optional<double> forward = run.forward_seconds();
  const std::optional<double> step = run.step_seconds();
  if (forward && step) return Slowdown{100 * share.of(change) * *forward / *step, true};
  // From the widely cited article: 20 to 30 % of a step. Only if the recording has no times.
  constexpr double kRuleOfThumb = 25;
  const double of_all = share.of({change.remedies, std::nullopt, 1, 1});
  const double of_blocks = of_all > 0 ? share.of(change) / of_all : 1;
  return Slowdown{kRuleOfThumb * of_blocks, false};
}

}  // namespace

RemedySpec checkpointing() {
  return {
      .name = "checkpointing",
      .title = "checkpoint every repeated block",
      .cost = RemedyCost::slower,
      .how = kCheckpointingCode,
      .how_trainer = "TrainingArguments(gradient_checkpointing=True)",
      .aspect = Aspect::activations,
      .needs = {.stacks = true},
      .is_per_block = true,
      .band = 0.06,
      .is_estimated = true,
      .least = {.step = 0},
      .fit_cost = 0,
      .fit_order = 40,
      .is_verifiable = true,
      .obstacle = checkpointing_obstacle,
      .rewrite = checkpointing_rewrite,
      .code =
          [](const AdvisedRun& run, const Change& change) {
            return checkpointing_code(run, change, "", kCheckpointingCode);
          },
      .slowdown = checkpointing_slowdown,
      .introduction =
          [](const AdvisedRun& run) {
            return std::to_string(run.blocks_per_pass()) + " blocks are recomputed. ";
          },
  };
}

}  // namespace gpumemprof::remedies
