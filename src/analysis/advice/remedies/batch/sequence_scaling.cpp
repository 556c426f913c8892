// Longer and shorter sequences. What is allocated per token grows with the number of tokens;
// token-by-token matrices, which attention allocates without a fused kernel, grow with its square.
#include <algorithm>
#include <cmath>
#include <map>

#include "analysis/advice/remedies/rewrite.h"

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

std::uint64_t stretched(std::uint64_t bytes, double factor) {
  return static_cast<std::uint64_t>(
      std::llround(std::max(static_cast<double>(bytes) * factor, 1.0)));
}

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

void scale_sequence(Rewrite& rewrite, double factor) {
  const RunFacts& facts = rewrite.facts;
  const SequenceGrowth& growth = facts.sequence_growth();
  const SequenceFacts sequence = find_sequence(facts);
  std::set<std::uint64_t> result_sizes;
  const auto scale = [&](std::uint32_t row, double exponent) {
    TimelineRow* entry = rewrite.find(row);
    if (entry == nullptr || !entry->is_there() || exponent == 0) return;
    entry->size_bytes = stretched(entry->size_bytes, std::pow(factor, exponent));
  };
  for (std::uint32_t row = 0; row < facts.record().allocations.size(); ++row) {
    if (facts.source(row) == MemorySource::inputs) scale(row, 1);
  }
  for (const ForwardPass& pass : facts.passes()) {
    const bool knows_forward = growth.forward.size() == pass.forward.size();
    std::set<std::uint64_t> linear_sizes;
    for (std::size_t place = 0; place < pass.forward.size(); ++place) {
      const std::uint32_t row = pass.forward[place];
      if (facts.source(row) == MemorySource::gradients) continue;
      result_sizes.insert(facts.bytes(row));
      if (sequence.is_square[row] == 0) linear_sizes.insert(facts.bytes(row));
      scale(row, knows_forward ? growth.forward[place] : sequence.is_square[row] != 0 ? 2 : 1);
    }
    const bool knows_backward = growth.backward.size() == pass.backward.size();
    for (std::size_t place = 0; place < pass.backward.size(); ++place) {
      const std::uint32_t row = pass.backward[place];
      const std::uint64_t bytes = facts.bytes(row);
      if (facts.source(row) == MemorySource::gradients) continue;
      const bool is_of_parameter = facts.is_parameter_size(bytes) && !result_sizes.contains(bytes);
      const bool is_square = sequence.square_sizes.contains(bytes) && !linear_sizes.contains(bytes);
      scale(row, knows_backward ? growth.backward[place] : is_of_parameter ? 0 : is_square ? 2 : 1);
    }
  }
  for (TimelineRow& row : rewrite.timeline.rows) {
    const bool is_of_tokens =
        row.origin == TimelineRow::kInserted && row.source == MemorySource::activations;
    if (is_of_tokens && row.is_there()) row.size_bytes = stretched(row.size_bytes, factor);
  }
}

namespace {

double most_usual(const std::map<double, std::uint64_t>& bytes_by_ratio) {
  return std::max_element(bytes_by_ratio.begin(), bytes_by_ratio.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

// The ratio of the two lengths: the one most bytes have, or, if that is the square of what many
// others have, its root. None if nothing grows with a square: then it may just as well be the batch
// that differs.
std::optional<double> ratio_of_lengths(const std::map<double, std::uint64_t>& bytes_by_ratio) {
  if (bytes_by_ratio.empty()) return std::nullopt;
  const double most = most_usual(bytes_by_ratio);
  std::uint64_t total = 0;
  for (const auto& [ratio, bytes] : bytes_by_ratio) total += bytes;
  const auto share_near = [&](double wanted) {
    std::uint64_t sum = 0;
    for (const auto& [ratio, bytes] : bytes_by_ratio) {
      constexpr double kNear = 0.02;
      if (std::abs(ratio / wanted - 1) < kNear) sum += bytes;
    }
    return static_cast<double>(sum) / static_cast<double>(total);
  };
  constexpr double kSome = 0.01;  // a loss over pairs of samples is smaller than that
  if (share_near(most * most) > kSome) return most;
  if (share_near(std::sqrt(most)) > kSome) return std::sqrt(most);
  return std::nullopt;
}

// Position embeddings have one row for all samples: they grow with the length and not with the
// batch. True if embeddings of several sizes all grew by the same factor.
bool do_positions_grow(const RunFacts& facts, const ForwardPass& pass, const RunFacts& other,
                       const ForwardPass& other_pass) {
  std::set<std::uint64_t> sizes;
  std::set<double> ratios;
  for (const Operation& operation : pass.operations) {
    if (operation.kind != OpKind::embedding) continue;
    const std::uint64_t bytes = facts.bytes(pass.forward[operation.output]);
    if (bytes == 0) return false;
    sizes.insert(bytes);
    ratios.insert(static_cast<double>(other.bytes(other_pass.forward[operation.output])) /
                  static_cast<double>(bytes));
  }
  return sizes.size() > 1 && ratios.size() == 1 && *ratios.begin() != 1;
}

}  // namespace

bool RunFacts::compare_sequences(const RunFacts& other) {
  const ForwardPass* one = last_whole_pass();
  const ForwardPass* two = other.last_whole_pass();
  if (one == nullptr || two == nullptr || one->forward.size() != two->forward.size()) return false;
  const auto ratio_of = [&](std::uint32_t row, std::uint32_t other_row) {
    return static_cast<double>(std::max<std::uint64_t>(other.bytes(other_row), 1)) /
           static_cast<double>(std::max<std::uint64_t>(bytes(row), 1));
  };
  std::map<double, std::uint64_t> bytes_by_ratio;
  for (std::size_t place = 0; place < one->forward.size(); ++place) {
    const double ratio = ratio_of(one->forward[place], two->forward[place]);
    if (ratio != 1) bytes_by_ratio[ratio] += bytes(one->forward[place]);
  }
  std::optional<double> lengths = ratio_of_lengths(bytes_by_ratio);
  if (!lengths && !bytes_by_ratio.empty() && do_positions_grow(*this, *one, other, *two))
    lengths = most_usual(bytes_by_ratio);
  if (!lengths) return false;
  const auto exponent = [&](std::uint32_t row, std::uint32_t other_row) {
    return std::log(ratio_of(row, other_row)) / std::log(*lengths);
  };
  for (std::size_t place = 0; place < one->forward.size(); ++place)
    sequence_growth_.forward.push_back(exponent(one->forward[place], two->forward[place]));
  for (std::size_t place = 0;
       one->backward.size() == two->backward.size() && place < one->backward.size(); ++place)
    sequence_growth_.backward.push_back(exponent(one->backward[place], two->backward[place]));
  return true;
}

}  // namespace gpumemprof
