// What a second recording of the same program says: how each allocation grows with the batch or
// with the length of the sequences.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "analysis/advice/run/run_facts.h"

namespace gpumemprof {
namespace {

double ratio_of(const RunFacts& one, std::uint32_t row, const RunFacts& other,
                std::uint32_t other_row) {
  // A zero-byte request has no ratio.
  return static_cast<double>(std::max<std::uint64_t>(other.bytes(other_row), 1)) /
         static_cast<double>(std::max<std::uint64_t>(one.bytes(row), 1));
}

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

// The ratio of the batches is the one shared by most of the bytes that changed at all.
void RunFacts::compare_batches(const RunFacts& other) {
  const ForwardPass* one = last_whole_pass();
  const ForwardPass* two = other.last_whole_pass();
  if (one == nullptr || two == nullptr || one->forward.size() != two->forward.size()) return;
  std::map<double, std::uint64_t> bytes_by_ratio;
  for (std::size_t place = 0; place < one->forward.size(); ++place) {
    const double ratio = ratio_of(*this, one->forward[place], other, two->forward[place]);
    if (ratio != 1) bytes_by_ratio[ratio] += bytes(one->forward[place]);
  }
  const auto most =
      std::max_element(bytes_by_ratio.begin(), bytes_by_ratio.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most == bytes_by_ratio.end()) return;
  const auto grows = [&](std::uint32_t row, std::uint32_t other_row) {
    return (ratio_of(*this, row, other, other_row) - 1) / (most->first - 1);
  };
  for (std::size_t place = 0; place < one->forward.size(); ++place)
    growth_.forward.push_back(grows(one->forward[place], two->forward[place]));
  if (one->backward.size() != two->backward.size()) return;
  for (std::size_t place = 0; place < one->backward.size(); ++place)
    growth_.backward.push_back(grows(one->backward[place], two->backward[place]));
}

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
