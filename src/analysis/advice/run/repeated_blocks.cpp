#include "analysis/advice/run/repeated_blocks.h"

#include <algorithm>
#include <map>
#include <ranges>

#include "analysis/code/code_kind.h"

namespace gpumemprof {
namespace {

constexpr std::uint32_t kNoLine = 0xffffffffU;

// Finds the lines of a model's code that call modules repeatedly: a block is what one iteration of
// such a loop computes. Loops may be nested; `depth` says which are taken: 0 the outermost.
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
    std::sort(blocks.begin(), blocks.end(), [](const RepeatedBlock& a, const RepeatedBlock& b) {
      return a.pass != b.pass ? a.pass < b.pass : a.first < b.first;
    });
    for (std::size_t index = 1; index < blocks.size(); ++index) {
      const RepeatedBlock& before = blocks[index - 1];
      blocks[index].ordinal = before.pass == blocks[index].pass ? before.ordinal + 1 : 0;
    }
    return blocks;
  }

 private:
  static constexpr std::uint32_t kNotAsked = kNoLine - 1;
  static constexpr std::size_t kFewestTurns = 2;

  struct Line {
    StackId first_stack;           // of the first allocation under it
    std::uint32_t last = kNoLine;  // the latest place under it
    StackId last_stack;
    std::vector<std::uint32_t> turns;   // places where an iteration begins
    std::vector<StackId> operations;    // one for each run of the same stack
    std::vector<std::uint32_t> places;  // where each of them begins
    std::vector<std::uint32_t> starts;  // into operations: where each iteration begins
    FrameId callee;                     // what it calls; the first
    bool is_uniform = true;             // it calls modules of one class
    std::uint32_t depth = 0;            // repeated lines around it
    bool has_inner = false;             // has repeated lines inside it
    std::size_t turns_around = 1;       // of the repeated line around it
    std::uint32_t first_line = 0;       // of the called forward(), where the first iteration begins
    std::uint32_t last_line = 0;        // and at the latest place

    // In each iteration of the loop around it.
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
    std::uint32_t line = at.is_none() ? kNoLine : calls_[at.index];
    for (const StackId step : std::ranges::reverse_view(path)) {
      if (calls_module(step)) line = step.index;
      calls_[step.index] = line;
    }
    return line;
  }

  // Moves from a line to the one around it.
  std::uint32_t line_around(std::uint32_t line) {
    const StackId caller = stacks_.caller(StackId(line));
    return caller.is_none() ? kNoLine : caller_line(caller);
  }

  void find_in(std::uint32_t index, const ForwardPass& pass, std::vector<RepeatedBlock>& blocks) {
    std::map<std::uint32_t, Line> lines;  // by stack of the call
    for (std::uint32_t place = 0; place < pass.forward.size(); ++place) {
      const StackId stack = facts_.record().allocations.stack[pass.forward[place]];
      if (stack.is_none()) continue;
      StackId inner = stack;
      for (std::uint32_t line = caller_line(stack); line != kNoLine; line = line_around(line)) {
        note(lines[line], place, stack, note_callee(lines[line], inner, StackId(line)));
        inner = StackId(line);
      }
    }
    for (auto& [stack, line] : lines) {
      if (line.is_uniform) settle_turns(line);
    }
    nest(lines);
    for (const auto& [stack, line] : lines) {
      if (!is_loop(line)) continue;
      const bool is_asked = line.depth == depth_ || (line.depth < depth_ && !line.has_inner);
      if (!is_asked) continue;
      const std::size_t step = starts_per_turn(line);
      for (std::size_t turn = 0; turn < line.turns.size(); turn += step) {
        const std::size_t next = turn + step;
        const std::uint32_t end =
            next < line.turns.size() ? line.turns[next] : end_of_last(line, turn, step);
        blocks.push_back({index, line.turns[turn], end});
      }
    }
  }

  // A multi-line expression may end on an earlier line than it begins, and then looks like an
  // iteration of its own. So iterations are also counted by how often the same operations run: if
  // those are fewer, an iteration begins after the last operation that all iterations have.
  static void settle_turns(Line& line) {
    std::map<StackId, std::size_t> runs;
    for (const StackId operation : line.operations) ++runs[operation];
    const std::size_t count = usual_count(runs);
    if (count < kFewestTurns || count >= line.turns.size() / starts_per_turn(line)) return;
    const auto is_of_all = [&](StackId operation) { return runs[operation] == count; };
    const auto anchor = std::find_if(line.operations.begin(), line.operations.end(), is_of_all);
    std::vector<std::uint32_t> starts;
    std::size_t next = 0;  // after the last operation that all iterations have
    for (std::size_t index = 0; index < line.operations.size(); ++index) {
      if (line.operations[index] == *anchor) starts.push_back(static_cast<std::uint32_t>(next));
      if (is_of_all(line.operations[index])) next = index + 1;
    }
    line.starts = std::move(starts);
    line.turns.clear();
    for (const std::uint32_t start : line.starts) line.turns.push_back(line.places[start]);
  }

  // How often operations run: the smallest count that many of them share. Some blocks have
  // operations of their own; loops inside blocks run theirs more often.
  static std::size_t usual_count(const std::map<StackId, std::size_t>& runs) {
    constexpr std::size_t kMany = 4;  // one in this many
    std::map<std::size_t, std::size_t> operations;
    for (const auto& [stack, count] : runs) ++operations[count];
    for (const auto& [count, number] : operations) {
      if (count >= kFewestTurns && kMany * number >= runs.size()) return count;
    }
    return 0;
  }

  // A block may run its first operation more than once: an iteration then spans as many of them as
  // make all iterations alike. 1 if nothing does.
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

  // An iteration begins where the called forward() goes back to its beginning: to the stack of the
  // first allocation, or to an earlier line (blocks of one class need not all run every line).
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
      line.places.push_back(place);
    }
    line.last = place;
    line.last_stack = stack;
    line.last_line = callee_line;
  }

  // A loop over modules of one class; a Sequential of different ones only if it is outermost and
  // the model has no other loop: where its iterations begin is a guess.
  [[nodiscard]] bool is_loop(const Line& line) const {
    return line.is_repeated() && (line.is_uniform || (line.depth == 0 && !has_uniform_));
  }

  // The line that calls the model may look like the loop inside it: what the model does after the
  // loop does not belong to the last iteration if that does all that the one before does.
  static std::uint32_t end_of_last(const Line& line, std::size_t turn, std::size_t step) {
    if (turn < step) return line.last + 1;
    const std::size_t before = line.starts[turn - step];
    const std::size_t length = line.starts[turn] - before;
    const std::size_t end = line.starts[turn] + length;
    if (end >= line.operations.size()) return line.last + 1;
    const auto operation = [&](std::size_t index) {
      return line.operations.begin() + static_cast<std::ptrdiff_t>(index);
    };
    const bool is_alike =
        std::equal(operation(before), operation(before + length), operation(line.starts[turn]));
    return is_alike ? line.places[end] : line.last + 1;
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
    has_uniform_ = std::any_of(lines.begin(), lines.end(), [](const auto& entry) {
      return entry.second.is_uniform && entry.second.is_repeated();
    });
    // Callers precede what they call, so a line comes after those around it.
    for (auto& [stack, line] : lines) {
      for (std::uint32_t around = line_around(stack); around != kNoLine;
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
  bool has_uniform_ = false;          // in the current pass
};

}  // namespace

std::vector<RepeatedBlock> find_blocks(const RunFacts& facts, std::uint32_t depth) {
  return BlockFinder(facts, depth).run();
}

std::size_t blocks_per_pass(const std::vector<RepeatedBlock>& blocks) {
  std::size_t most = 0;
  for (const RepeatedBlock& block : blocks) most = std::max<std::size_t>(most, block.ordinal + 1);
  return most;
}

}  // namespace gpumemprof
