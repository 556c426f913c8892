#include "analysis/advice/advised_run.h"

#include <algorithm>
#include <cmath>

#include "analysis/advice/remedies/activations/recomputation.h"
#include "analysis/advice/run/block_list.h"
#include "analysis/advice/run/block_modules.h"

namespace gpumemprof {

AdvisedRun::AdvisedRun(const AdvisedRunInput& input)
    : proven_(input.proven),
      growth_(input.growth),
      end_(input.end),
      batch_(input.batch),
      facts_(input.store, end_.completed ? end_.completed->record : input.record,
             end_.completed ? end_.completed->spans : input.spans, input.growth.rows),
      recorded_(facts_.timeline(proven_.verified.requests, proven_.first_event)),
      sequence_(find_sequence(facts_)) {
  if (end_.completed) {
    // What the program asked of the allocator after it ran out of memory.
    const TimelineKey resumed = at_event(end_.completed->resumed_at);
    std::erase_if(recorded_.commands,
                  [&](const TimelineCommand& command) { return command.key >= resumed; });
  }
  blocks_ = choose_blocks(facts_, recorded_, rounding());
  block_modules_ = find_block_modules(facts_, blocks_);
  block_list_ = find_block_list(store(), blocks_per_pass(), block_modules_);
  forward_seconds_ = facts_.seconds_in(Phase::forward);
  const std::optional<double> backward = facts_.seconds_in(Phase::backward);
  const std::optional<double> step = facts_.seconds_in(Phase::optimizer_step);
  if (forward_seconds_ && backward && step && *forward_seconds_ > 0 && *backward > 0)
    step_seconds_ = *forward_seconds_ + *backward + *step;
}

bool AdvisedRun::compare(const RunFacts& other) {
  if (facts_.compare_sequences(other)) return true;
  facts_.compare_batches(other);
  return facts_.growth().is_known();
}

const AllocatorSettings* AdvisedRun::rounding() const {
  return store().facts().has_pool() ? &store().settings() : nullptr;
}

std::vector<std::uint32_t> AdvisedRun::blocks_by_saving() const {
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

}  // namespace gpumemprof
