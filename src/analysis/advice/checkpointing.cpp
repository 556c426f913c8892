// Checkpointing: blocks save only their input and are computed again when backward reaches them.
#include <algorithm>
#include <map>
#include <ranges>

#include "analysis/advice/rewrite.h"
#include "analysis/sources/code_kind.h"

namespace gpumemprof {
namespace {

constexpr std::uint32_t kNone = 0xffffffffU;

// Finds the lines of a model's code that call modules again and again: a block is what one turn of
// such a loop computes. Loops may lie inside others; `depth` says which are taken: 0 the outermost.
class BlockFinder {
 public:
  BlockFinder(const RunFacts& facts, std::uint32_t depth)
      : facts_(facts),
        depth_(depth),
        stacks_(facts.store().stacks()),
        calls_(stacks_.size(), kNotAsked) {}

  std::vector<RepeatedBlock> run() {
    const std::vector<ForwardPass>& passes = facts_.passes();
    std::vector<RepeatedBlock> blocks;
    for (std::uint32_t index = 0; index < passes.size(); ++index) {
      find_in(index, passes[index], blocks);
    }
    return blocks;
  }

 private:
  static constexpr std::uint32_t kNotAsked = kNone - 1;
  static constexpr std::size_t kFewestTurns = 2;

  struct Line {
    StackId first_stack;         // of the first allocation under it
    std::uint32_t last = kNone;  // the latest place under it
    StackId last_stack;
    std::vector<std::uint32_t> turns;   // places where a turn begins
    std::vector<StackId> operations;    // one for each run of the same stack
    std::vector<std::uint32_t> starts;  // into operations: where each turn begins
    FrameId callee;                     // what it calls; the first
    bool is_uniform = true;             // it calls modules of one class
    std::uint32_t depth = 0;            // repeated lines around it
    bool has_inner = false;             // there are repeated lines inside
    std::size_t turns_around = 1;       // of the repeated line around it
    std::uint32_t first_line = 0;       // of the called forward(), where the first turn begins
    std::uint32_t last_line = 0;        // and at the latest place

    // In each turn of what is around it.
    [[nodiscard]] bool is_repeated() const { return turns.size() >= kFewestTurns * turns_around; }
  };

  [[nodiscard]] bool calls_module(StackId stack) const {
    return is_module_call(facts_.store(), stacks_.frame(stack));
  }

  // The innermost line at or above `stack` that calls a module, as the stack of that line: the
  // frame above torch's own call.
  std::uint32_t caller_line(StackId stack) {
    std::vector<StackId> path;
    StackId at = stack;
    for (; !at.is_none() && calls_[at.index] == kNotAsked; at = stacks_.caller(at))
      path.push_back(at);
    std::uint32_t line = at.is_none() ? kNone : calls_[at.index];
    for (const StackId step : std::ranges::reverse_view(path)) {
      if (calls_module(step)) line = step.index;
      calls_[step.index] = line;
    }
    return line;
  }

  // Walks from a line to the one around it.
  std::uint32_t line_around(std::uint32_t line) {
    const StackId caller = stacks_.caller(StackId(line));
    return caller.is_none() ? kNone : caller_line(caller);
  }

  void find_in(std::uint32_t index, const ForwardPass& pass, std::vector<RepeatedBlock>& blocks) {
    std::map<std::uint32_t, Line> lines;  // by stack of the call
    for (std::uint32_t place = 0; place < pass.forward.size(); ++place) {
      const StackId stack = facts_.record().allocations.stack[pass.forward[place]];
      if (stack.is_none()) continue;
      StackId inner = stack;
      for (std::uint32_t line = caller_line(stack); line != kNone; line = line_around(line)) {
        note(lines[line], place, stack, note_callee(lines[line], inner, StackId(line)));
        inner = StackId(line);
      }
    }
    nest(lines);
    for (const auto& [stack, line] : lines) {
      if (!is_loop(line)) continue;
      const bool is_asked = line.depth == depth_ || (line.depth < depth_ && !line.has_inner);
      if (!is_asked) continue;
      const std::size_t step = starts_per_turn(line);
      for (std::size_t turn = 0; turn < line.turns.size(); turn += step) {
        const std::uint32_t end =
            turn + step < line.turns.size() ? line.turns[turn + step] : line.last + 1;
        blocks.push_back({index, line.turns[turn], end});
      }
    }
  }

  // A block may run its first operation more than once: a turn then is as many of them as make all
  // turns alike. 1 where nothing does.
  static std::size_t starts_per_turn(const Line& line) {
    constexpr std::size_t kMost = 8;
    for (std::size_t step = 1; step <= kMost && 2 * step <= line.starts.size(); ++step) {
      if (line.starts.size() % step == 0 && is_alike(line, step)) return step;
    }
    return 1;
  }
  static bool is_alike(const Line& line, std::size_t step) {
    const std::size_t length = line.starts[step];
    if (line.operations.size() != length * (line.starts.size() / step)) return false;
    for (std::size_t index = length; index < line.operations.size(); ++index) {
      if (line.operations[index] != line.operations[index - length]) return false;
    }
    return true;
  }

  // A turn begins where the called forward() goes back to its beginning: to the stack of the first
  // allocation, or to a line before that (blocks of one class need not all run every line).
  static void note(Line& line, std::uint32_t place, StackId stack, std::uint32_t callee_line) {
    if (line.turns.empty()) {
      line.first_stack = stack;
      line.first_line = callee_line;
      line.last_line = callee_line;
    }
    if (line.last_stack != stack) {
      const bool is_again = stack == line.first_stack && callee_line <= line.last_line;
      const bool is_back = callee_line < line.last_line && callee_line <= line.first_line;
      if (is_again || is_back) {
        line.turns.push_back(place);
        line.starts.push_back(static_cast<std::uint32_t>(line.operations.size()));
      }
      line.operations.push_back(stack);
    }
    line.last = place;
    line.last_stack = stack;
    line.last_line = callee_line;
  }

  // A loop over modules of one class; a Sequential of different ones only where it is outermost.
  [[nodiscard]] static bool is_loop(const Line& line) {
    return line.is_repeated() && (line.is_uniform || line.depth == 0);
  }

  // The first forward() below the line is that of the module it calls; returns the line it is at.
  std::uint32_t note_callee(Line& line, StackId inner, StackId call) const {
    FrameId callee;
    for (StackId at = inner; !at.is_none() && at != call; at = stacks_.caller(at)) {
      if (is_module_forward(facts_.store(), stacks_.frame(at))) callee = stacks_.frame(at);
    }
    if (callee.is_none()) return 0;
    if (line.callee.is_none()) line.callee = callee;
    const Frame& first = facts_.store().frame(line.callee);
    const Frame& now = facts_.store().frame(callee);
    line.is_uniform = line.is_uniform && first.file == now.file && first.name == now.name;
    return now.line;
  }

  void nest(std::map<std::uint32_t, Line>& lines) {
    // Callers are older than what they call, so a line comes behind those around it.
    for (auto& [stack, line] : lines) {
      for (std::uint32_t around = line_around(stack); around != kNone;
           around = line_around(around)) {
        const auto found = lines.find(around);
        if (found == lines.end() || !is_loop(found->second)) continue;
        line.depth = found->second.depth + 1;
        line.turns_around = found->second.turns.size() / starts_per_turn(found->second);
        if (is_loop(line)) found->second.has_inner = true;
        break;
      }
    }
  }

  const RunFacts& facts_;
  std::uint32_t depth_;
  const StackTrie& stacks_;
  std::vector<std::uint32_t> calls_;  // by stack: the innermost call of a module at or above it
};

class Recomputation {
 public:
  Recomputation(Rewrite& rewrite, const RepeatedBlock& block,
                const std::vector<std::uint32_t>& added)
      : rewrite_(rewrite),
        facts_(rewrite.facts),
        pass_(facts_.passes()[block.pass]),
        block_(block),
        added_(added) {}

  void run() {
    const std::uint32_t output = find_output();
    if (!pass_.has_backward()) {
      drop_in_forward(output);
      return;
    }
    const std::uint32_t start = find_start(output);
    if (start == kNone) return;
    for (std::uint32_t place = block_.first; place < block_.end; ++place) {
      if (place != output) recompute(place, start);
    }
    recompute_added(start);
  }

 private:
  [[nodiscard]] std::uint32_t row(std::uint32_t place) const { return pass_.forward[place]; }
  [[nodiscard]] bool is_recomputed(std::uint32_t place) const {
    return facts_.source(row(place)) == MemorySource::activations &&
           facts_.is_saved(pass_, row(place)) && facts_.death(row(place)) < pass_.backward_end;
  }

  // A run that ended in forward: what the block would have saved is not there.
  void drop_in_forward(std::uint32_t output) {
    for (std::uint32_t place = block_.first; place < block_.end; ++place) {
      TapeRow* recorded = rewrite_.find(row(place));
      if (place == output || recorded == nullptr) continue;
      if (facts_.source(row(place)) != MemorySource::activations) continue;
      const TapeKey key = drop_key(place);
      if (key < recorded->death) recorded->die_at(key);
    }
  }

  // What the next block gets: the last result that lives on, and no mere statistics.
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

  // Backward reaches the block: before the first request of the operation that first lets go of
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

  void recompute(std::uint32_t place, std::uint32_t start) {
    TapeRow* recorded = rewrite_.find(row(place));
    if (recorded == nullptr || !recorded->is_there()) return;
    const std::uint64_t order = 4 * std::uint64_t{place - block_.first};
    const TapeKey birth = before_event(start, order);
    TapeRow again = *recorded;
    again.birth = birth;
    again.origin = TapeRow::kInserted;
    if (is_recomputed(place)) {
      recorded->die_at(drop_key(place));
    } else {
      again.die_at(transient_death(place, start));
    }
    if (again.death <= again.birth) return;
    rewrite_.tape.rows.push_back(again);
  }

  // What an earlier rewrite made forward save: copies in another precision.
  void recompute_added(std::uint32_t start) {
    const TapeKey first = before_event(facts_.birth(row(block_.first)), 0);
    const TapeKey end = block_.end < pass_.forward.size()
                            ? before_event(facts_.birth(row(block_.end)), 0)
                            : before_event(pass_.backward_first, 0);
    const auto by_birth = [&](std::uint32_t place, TapeKey key) {
      return rewrite_.tape.rows[place].birth < key;
    };
    auto next = std::lower_bound(added_.begin(), added_.end(), first, by_birth);
    for (; next != added_.end() && rewrite_.tape.rows[*next].birth < end; ++next) {
      TapeRow& copy = rewrite_.tape.rows[*next];
      if (copy.death <= before_event(pass_.backward_first, 0)) continue;
      TapeRow again = copy;
      again.birth = before_event(start, 4 * std::uint64_t{block_.end - block_.first});
      copy.die_at(after_event(event_of(copy.birth), 4));
      if (again.death > again.birth) rewrite_.tape.rows.push_back(again);
    }
  }

  // In forward the result goes as soon as the operations behind it are done with it.
  [[nodiscard]] TapeKey drop_key(std::uint32_t place) const {
    constexpr std::uint32_t kSoon = 3;
    const std::uint32_t user = std::min(place + kSoon, block_.end);
    if (user < pass_.forward.size()) return before_event(facts_.birth(row(user)), 0);
    return pass_.has_backward() ? before_event(pass_.backward_first, 0) : kTapeEnd;
  }

  // What forward itself lets go of: at the same place of the sequence.
  [[nodiscard]] TapeKey transient_death(std::uint32_t place, std::uint32_t start) const {
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
};

}  // namespace

std::vector<RepeatedBlock> find_blocks(const RunFacts& facts, std::uint32_t depth) {
  return BlockFinder(facts, depth).run();
}

void checkpoint_blocks(Rewrite& rewrite, const std::vector<RepeatedBlock>& blocks) {
  std::vector<std::uint32_t> added;  // activations that no row of the recording is, by birth
  const std::vector<TapeRow>& rows = rewrite.tape.rows;
  for (std::uint32_t place = 0; place < rows.size(); ++place) {
    if (rows[place].origin == TapeRow::kInserted && rows[place].source == MemorySource::activations)
      added.push_back(place);
  }
  std::sort(added.begin(), added.end(),
            [&](std::uint32_t a, std::uint32_t b) { return rows[a].birth < rows[b].birth; });
  for (const RepeatedBlock& block : blocks) Recomputation(rewrite, block, added).run();
}

void offload_activations(Rewrite& rewrite) {
  const RunFacts& facts = rewrite.facts;
  constexpr std::uint32_t kSoon = 3;
  for (const ForwardPass& pass : facts.passes()) {
    for (std::uint32_t place = 0; place < pass.forward.size(); ++place) {
      const std::uint32_t row = pass.forward[place];
      if (facts.source(row) != MemorySource::activations || !facts.is_saved(pass, row)) continue;
      TapeRow* saved = rewrite.find(row);
      if (saved == nullptr || !saved->is_there() || saved->death == kTapeEnd) continue;
      TapeRow back = *saved;
      const std::uint32_t death = event_of(saved->death);
      std::uint32_t start = death;
      const Column<Action>& actions = facts.record().events.action;
      while (start > pass.backward_first && actions[start - 1] == Action::alloc) --start;
      const std::uint32_t user = place + kSoon;
      saved->die_at(user < pass.forward.size() ? before_event(facts.birth(pass.forward[user]), 0)
                                               : before_event(pass.backward_first, 0));
      back.birth = before_event(start, 0);
      back.origin = TapeRow::kInserted;
      if (back.death > back.birth) rewrite.tape.rows.push_back(back);
    }
  }
}

bool chunk_loss(Rewrite& rewrite, std::uint32_t chunks) {
  const RunFacts& facts = rewrite.facts;
  bool has_loss = false;
  for (const ForwardPass& pass : facts.passes()) {
    std::uint64_t logits = 0;
    for (const Operation& operation : pass.operations) {
      if (operation.kind == OpKind::loss)
        logits = std::max(logits, facts.bytes(pass.forward[operation.output]));
    }
    constexpr std::uint64_t kLargeBytes = 1U << 20U;
    if (logits < kLargeBytes) continue;
    has_loss = true;
    for (const std::vector<std::uint32_t>* rows : {&pass.forward, &pass.backward}) {
      for (const std::uint32_t row : *rows) {
        TapeRow* entry = rewrite.find(row);
        if (entry != nullptr && facts.bytes(row) == logits &&
            facts.source(row) != MemorySource::gradients)
          entry->size_bytes = (entry->size_bytes + chunks - 1) / chunks;
      }
    }
  }
  return has_loss;
}

}  // namespace gpumemprof
