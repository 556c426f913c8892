#include "analysis/advice/run/sequence_facts.h"

#include <algorithm>
#include <map>

namespace gpumemprof {
namespace {

// The size that most results of a pass have: usually that of the hidden states.
std::uint64_t usual_size(const RunFacts& facts, const ForwardPass& pass) {
  std::map<std::uint64_t, std::uint64_t> bytes_of_size;
  for (const std::uint32_t row : pass.forward) {
    if (facts.is_saved(pass, row)) bytes_of_size[facts.bytes(row)] += facts.bytes(row);
  }
  const auto most =
      std::max_element(bytes_of_size.begin(), bytes_of_size.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == bytes_of_size.end() ? 0 : most->first;
}

// Marks attention's matrices: a softmax's results and the operations before and after it that
// produce the same size (products, masks, dropout with its mask of one byte per element).
class SquareFinder {
 public:
  SquareFinder(const RunFacts& facts, const ForwardPass& pass, SequenceFacts& found)
      : facts_(facts), pass_(pass), found_(found) {}

  void run() {
    const std::uint64_t usual = usual_size(facts_, pass_);
    for (std::size_t index = 0; index < pass_.operations.size(); ++index) {
      const Operation& operation = pass_.operations[index];
      if (const std::uint64_t scores = facts_.scores_bytes(pass_, operation); scores > 0) {
        found_.square_sizes.insert(scores);
        mark(index, scores);
      }
      if (operation.kind != OpKind::softmax) continue;
      // A softmax over a few classes or experts is small compared to the hidden states.
      constexpr std::uint64_t kFew = 8;
      const std::uint64_t size = facts_.bytes(pass_.forward[operation.output]);
      if (kFew * size >= usual && !is_last(index)) spread(index, size);
    }
  }

  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  // A softmax over classes at the end has no product after it.
  [[nodiscard]] bool is_last(std::size_t index) const {
    return index + 2 >= pass_.operations.size() || pass_.operations[index + 1].kind == OpKind::loss;
  }

  // Norms, linear layers and embeddings never produce such a matrix, even if their results have its
  // size.
  [[nodiscard]] static bool may_be_square(OpKind kind) {
    return kind == OpKind::softmax || kind == OpKind::attention || kind == OpKind::follow ||
           kind == OpKind::unknown;
  }

  bool mark(std::size_t index, std::uint64_t size) {
    const Operation& operation = pass_.operations[index];
    if (!may_be_square(operation.kind)) return false;
    bool has_any = false;
    for (std::uint32_t place = operation.first; place < operation.first + operation.count;
         ++place) {
      const std::uint32_t row = pass_.forward[place];
      const std::uint64_t bytes = facts_.bytes(row);
      if (bytes != size && 4 * bytes != size) continue;
      if (found_.is_square[row] == 0) bytes_ += bytes;
      found_.is_square[row] = 1;
      has_any = true;
    }
    return has_any;
  }

  void spread(std::size_t index, std::uint64_t size) {
    found_.square_sizes.insert(size);
    mark(index, size);
    for (std::size_t next = index + 1; next < pass_.operations.size(); ++next) {
      if (!mark(next, size)) break;
    }
    for (std::size_t before = index; before-- > 0;) {
      if (!mark(before, size)) break;
    }
  }

  const RunFacts& facts_;
  const ForwardPass& pass_;
  SequenceFacts& found_;
  std::uint64_t bytes_ = 0;
};

}  // namespace

SequenceFacts find_sequence(const RunFacts& facts) {
  SequenceFacts found;
  found.is_square.assign(facts.record().allocations.size(), 0);
  for (const ForwardPass& pass : facts.passes()) {
    for (const Operation& operation : pass.operations) {
      const bool is_of_tokens = operation.kind == OpKind::embedding ||
                                operation.kind == OpKind::attention ||
                                is_recurrent(facts.store(), operation.stack);
      found.has_sequence = found.has_sequence || is_of_tokens;
    }
    SquareFinder finder(facts, pass, found);
    finder.run();
    found.attention_bytes = std::max(found.attention_bytes, finder.bytes());
  }
  found.has_sequence = found.has_sequence || !found.square_sizes.empty();
  return found;
}

}  // namespace gpumemprof
