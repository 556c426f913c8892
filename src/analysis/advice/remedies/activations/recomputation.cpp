#include "analysis/advice/remedies/activations/recomputation.h"

#include <algorithm>

#include "analysis/code/code_kind.h"

namespace gpumemprof {
namespace {

constexpr std::uint32_t kNone = 0xffffffffU;

class Recomputation {
 public:
  Recomputation(Rewrite& rewrite, const RepeatedBlock& block,
                const std::vector<std::uint32_t>& added, Kept kept)
      : rewrite_(rewrite),
        facts_(rewrite.facts),
        pass_(facts_.passes()[block.pass]),
        block_(block),
        added_(added),
        kept_(kept) {}

  void run() {
    const std::uint32_t output = find_output();
    if (!pass_.has_backward()) {
      drop_in_forward(output);
      return;
    }
    const std::uint32_t start = find_start(output);
    if (start == kNone) return;
    for (std::uint32_t place = block_.first; place < block_.end; ++place) {
      if (place == output) continue;
      is_kept(place) ? keep(place, start) : recompute(place, start);
    }
    recompute_added(start);
  }

 private:
  [[nodiscard]] std::uint32_t row(std::uint32_t place) const { return pass_.forward[place]; }
  [[nodiscard]] bool is_recomputed(std::uint32_t place) const {
    return facts_.source(row(place)) == MemorySource::activations &&
           facts_.is_saved(pass_, row(place)) && facts_.death(row(place)) < pass_.backward_end;
  }

  // A run that ended in forward: what the block would have saved is not live.
  void drop_in_forward(std::uint32_t output) {
    for (std::uint32_t place = block_.first; place < block_.end; ++place) {
      TimelineRow* recorded = rewrite_.find(row(place));
      if (place == output || recorded == nullptr || is_kept(place)) continue;
      if (facts_.source(row(place)) != MemorySource::activations) continue;
      const TimelineKey key = drop_key(place);
      if (key < recorded->death) recorded->die_at(key);
    }
  }

  // What the next block receives: the last result that stays live and is not just statistics.
  [[nodiscard]] std::uint32_t find_output() const {
    std::uint64_t largest = 0;
    for (std::uint32_t place = block_.first; place < block_.end; ++place)
      largest = std::max(largest, facts_.bytes(row(place)));
    for (std::uint32_t place = block_.end; place-- > block_.first;) {
      const bool lives_on = block_.end >= pass_.forward.size() ||
                            facts_.death(row(place)) > facts_.birth(row(block_.end));
      if (lives_on && 64 * facts_.bytes(row(place)) >= largest) return place;
    }
    return kNone;
  }

  // Backward reaches the block: before the first request of the operation that first frees
  // something the block saved.
  [[nodiscard]] std::uint32_t find_start(std::uint32_t output) const {
    std::uint32_t first = kNone;
    for (std::uint32_t place = block_.first; place < block_.end; ++place) {
      if (place != output && is_recomputed(place))
        first = std::min(first, facts_.death(row(place)));
    }
    if (first == kNone) return kNone;
    const Column<Action>& actions = facts_.record().events.action;
    while (first > pass_.backward_first && actions[first - 1] == Action::alloc) --first;
    return first;
  }

  [[nodiscard]] bool is_kept(std::uint32_t place) const {
    if (kept_ == Kept::nothing) return false;
    const Operation& operation = pass_.operations[pass_.operation_of[place]];
    if (operation.kind == OpKind::attention) return is_kept_of_attention(operation, place);
    return operation.kind == OpKind::matmul && place == result_of(operation);
  }

  // The longest-lived of what a layer allocates: the rest are copies in another layout.
  [[nodiscard]] std::uint32_t result_of(const Operation& operation) const {
    std::uint32_t result = operation.first;
    for (std::uint32_t place = operation.first; place < operation.first + operation.count;
         ++place) {
      if (facts_.death(row(place)) > facts_.death(row(result))) result = place;
    }
    return result;
  }

  // All of a fused kernel's results; otherwise its two products, the scores and the output.
  [[nodiscard]] bool is_kept_of_attention(const Operation& operation, std::uint32_t place) const {
    const std::uint64_t scores = facts_.scores_bytes(pass_, operation);
    if (scores == 0) return true;
    const std::uint32_t last = operation.first + operation.count - 1;
    if (place == last) return true;
    for (std::uint32_t at = operation.first; at <= last; ++at) {
      if (facts_.bytes(row(at)) == scores) return place == at;
    }
    return false;
  }

  // It is not recomputed, so it stays live until the recomputation needs it, even if backward does
  // not use it.
  void keep(std::uint32_t place, std::uint32_t start) {
    TimelineRow* recorded = rewrite_.find(row(place));
    if (recorded == nullptr || !recorded->is_there() || is_recomputed(place)) return;
    if (facts_.is_saved(pass_, row(place))) return;
    recorded->die_at(transient_death(place, start));
  }

  void recompute(std::uint32_t place, std::uint32_t start) {
    TimelineRow* recorded = rewrite_.find(row(place));
    if (recorded == nullptr || !recorded->is_there()) return;
    const std::uint64_t order = 4 * std::uint64_t{place - block_.first};
    const TimelineKey birth = before_event(start, order);
    TimelineRow again = *recorded;
    again.birth = birth;
    again.origin = TimelineRow::kInserted;
    if (is_recomputed(place)) {
      recorded->die_at(drop_key(place));
    } else {
      again.die_at(transient_death(place, start));
    }
    if (again.death <= again.birth) return;
    rewrite_.timeline.rows.push_back(again);
  }

  // What an earlier rewrite made forward save: copies in another precision.
  void recompute_added(std::uint32_t start) {
    const TimelineKey first = before_event(facts_.birth(row(block_.first)), 0);
    const TimelineKey end = block_.end < pass_.forward.size()
                                ? before_event(facts_.birth(row(block_.end)), 0)
                                : before_event(pass_.backward_first, 0);
    const auto by_birth = [&](std::uint32_t place, TimelineKey key) {
      return rewrite_.timeline.rows[place].birth < key;
    };
    auto next = std::lower_bound(added_.begin(), added_.end(), first, by_birth);
    for (; next != added_.end() && rewrite_.timeline.rows[*next].birth < end; ++next) {
      TimelineRow& copy = rewrite_.timeline.rows[*next];
      if (copy.death <= before_event(pass_.backward_first, 0)) continue;
      TimelineRow again = copy;
      again.birth = before_event(start, 4 * std::uint64_t{block_.end - block_.first});
      copy.die_at(after_event(event_of(copy.birth), 4));
      if (again.death > again.birth) rewrite_.timeline.rows.push_back(again);
    }
  }

  // In forward the result is freed as soon as the operations after it have used it.
  [[nodiscard]] TimelineKey drop_key(std::uint32_t place) const {
    constexpr std::uint32_t kSoon = 3;
    const std::uint32_t user = std::min(place + kSoon, block_.end);
    if (user < pass_.forward.size()) return before_event(facts_.birth(row(user)), 0);
    return pass_.has_backward() ? before_event(pass_.backward_first, 0) : kTimelineEnd;
  }

  // What forward itself frees: at the same point of the sequence.
  [[nodiscard]] TimelineKey transient_death(std::uint32_t place, std::uint32_t start) const {
    const std::uint32_t end = facts_.death(row(place));
    std::uint32_t user = place + 1;
    while (user < block_.end && facts_.birth(row(user)) < end) ++user;
    return before_event(start, 4 * std::uint64_t{user - block_.first} - 1);
  }

  Rewrite& rewrite_;
  const RunFacts& facts_;
  const ForwardPass& pass_;
  const RepeatedBlock& block_;
  const std::vector<std::uint32_t>& added_;
  Kept kept_;
};

// Lines of the model's own code whose result differs in size from the line before: possibly
// products, which are kept. In bytes, for the pass that has the most.
std::uint64_t may_be_products(const RunFacts& facts, const std::vector<RepeatedBlock>& blocks) {
  std::uint64_t most = 0;
  std::uint64_t sum = 0;
  std::uint32_t pass_at = 0;
  for (const RepeatedBlock& block : blocks) {
    if (block.pass != pass_at) sum = 0;
    pass_at = block.pass;
    const ForwardPass& pass = facts.passes()[block.pass];
    for (std::uint32_t place = block.first + 1; place < block.end; ++place) {
      const Operation& operation = pass.operations[pass.operation_of[place]];
      const std::uint64_t bytes = facts.bytes(pass.forward[place]);
      const bool is_other = bytes != facts.bytes(pass.forward[place - 1]);
      if (operation.kind == OpKind::unknown && is_other) sum += bytes;
    }
    most = std::max(most, sum);
  }
  return most;
}

}  // namespace

void checkpoint_blocks(Rewrite& rewrite, const std::vector<RepeatedBlock>& blocks, Kept kept) {
  std::vector<std::uint32_t> added;  // activations without a row in the recording, by birth
  const std::vector<TimelineRow>& rows = rewrite.timeline.rows;
  for (std::uint32_t place = 0; place < rows.size(); ++place) {
    if (rows[place].origin == TimelineRow::kInserted &&
        rows[place].source == MemorySource::activations)
      added.push_back(place);
  }
  std::sort(added.begin(), added.end(),
            [&](std::uint32_t a, std::uint32_t b) { return rows[a].birth < rows[b].birth; });
  for (const RepeatedBlock& block : blocks) Recomputation(rewrite, block, added, kept).run();
  if (kept == Kept::products) rewrite.doubtful_high_bytes += may_be_products(rewrite.facts, blocks);
}

std::vector<RepeatedBlock> choose_blocks(const RunFacts& facts, const AllocationTimeline& recorded,
                                         const AllocatorSettings* rounding) {
  constexpr std::uint32_t kDeepest = 3;
  std::vector<RepeatedBlock> chosen;
  std::uint64_t least = 0;
  std::size_t last_count = 0;
  for (std::uint32_t depth = 0; depth < kDeepest; ++depth) {
    std::vector<RepeatedBlock> blocks = find_blocks(facts, depth);
    if (blocks.size() == last_count) break;
    last_count = blocks.size();
    Rewrite trial(facts, recorded);
    checkpoint_blocks(trial, blocks);
    const std::uint64_t peak = trial.timeline.peak(rounding).bytes;
    if (least != 0 && peak >= least) continue;
    least = peak;
    chosen = std::move(blocks);
  }
  return chosen;
}

bool is_checkpointed(const RunFacts& facts) {
  const std::vector<CodeKind> kinds = code_kinds(facts.store());
  for (const ForwardPass& pass : facts.passes()) {
    for (const std::uint32_t row : pass.backward) {
      const StackId stack = facts.record().allocations.stack[row];
      if (!stack.is_none() && kinds[stack.index] == CodeKind::recompute) return true;
    }
  }
  return false;
}

}  // namespace gpumemprof
