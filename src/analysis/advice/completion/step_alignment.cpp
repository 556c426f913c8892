#include "analysis/advice/completion/step_alignment.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_set>
#include <vector>

namespace gpumemprof {
namespace {

// Rows that only one of the steps has: workspaces, state, loading of the batch.
constexpr std::size_t kFarthest = 512;
constexpr std::uint64_t kSmallBytes = 4096;  // scalars and statistics do not grow with a batch

class Aligner {
 public:
  Aligner(const DeviceRecord& record, EventRange whole, EventRange broken)
      : record_(record), rows_(record.allocations) {
    for (std::uint32_t row = 0; row < rows_.size(); ++row) {
      const std::uint32_t birth = rows_.alloc_event[row];
      if (birth == kNoEvent) continue;
      if (birth < whole.first && !rows_.stack[row].is_none())
        before_.insert(rows_.stack[row].index);
      if (is_batch(row, whole)) batch_.push_back(row);
      const bool is_in_whole = birth >= whole.first && birth < whole.end;
      if (is_in_whole && !is_made_once(row, whole.end)) whole_.push_back(row);
      if (birth >= broken.first && birth < broken.end) broken_.push_back(row);
    }
    failed_at_ = broken.end;
  }

  // Loaded before the whole step, and either freed in it or known as an input.
  [[nodiscard]] bool is_batch(std::uint32_t row, EventRange whole) const {
    const std::uint32_t death = rows_.free_requested_event[row];
    return rows_.alloc_event[row] < whole.first && !rows_.stack[row].is_none() &&
           death >= whole.first &&
           (death < whole.end || record_.labels.source_in_step(row) == MemorySource::inputs);
  }

  // State and workspaces that the first step allocates permanently.
  [[nodiscard]] bool is_made_once(std::uint32_t row, std::uint32_t end) const {
    const MemorySource source = record_.labels.source_in_step(row);
    return rows_.free_requested_event[row] >= end &&
           (source == MemorySource::optimizer_state || source == MemorySource::workspace);
  }

  std::optional<StepAlignment> run() {
    std::size_t at = 0;
    std::uint64_t all_bytes = 0;
    std::uint64_t same_bytes = 0;
    for (std::size_t index = 0; index < broken_.size(); ++index) {
      const std::uint32_t row = broken_[index];
      const std::size_t next = find(row, at);
      // Only in this step, or part of the setup if the whole step is the first.
      const bool is_alone = next == whole_.size() || (next > at && continues(index, at));
      if (!is_alone || !is_of_setup(rows_.stack[row])) all_bytes += rows_.requested_bytes[row];
      if (is_alone) {
        pair_with_batch(row);
        continue;
      }
      found_.like.emplace(row, whole_[next]);
      same_bytes += rows_.requested_bytes[row];
      note_factor(row, whole_[next]);
      at = next + 1;
    }
    constexpr std::uint64_t kMost = 10;
    const bool is_alike = kMost * same_bytes >= (kMost - 1) * all_bytes;
    std::optional<std::uint32_t> failed = find_failed(at);
    if (!failed && at == 0) failed = find_failed_batch();
    if (!is_alike || !failed) return std::nullopt;
    found_.resume_event = *failed;
    found_.size_factor = factor();
    return std::move(found_);
  }

 private:
  [[nodiscard]] bool is_same(std::uint32_t row, std::uint32_t other) const {
    const StackId stack = rows_.stack[row];
    if (stack != rows_.stack[other]) return false;
    // Autograd's own threads have no stack: sizes distinguish their requests.
    if (!stack.is_none()) return true;
    const auto size = static_cast<double>(rows_.requested_bytes[row]);
    const auto before = static_cast<double>(rows_.requested_bytes[other]);
    constexpr double kNear = 0.02;
    return size == before || std::abs(size - before * factor()) <= kNear * size;
  }

  [[nodiscard]] std::size_t find(std::uint32_t row, std::size_t from) const {
    const std::size_t end = std::min(whole_.size(), from + kFarthest);
    for (std::size_t next = from; next < end; ++next) {
      if (is_same(row, whole_[next])) return next;
    }
    return whole_.size();
  }

  // Loaded by the line that loaded part of the first step's batch.
  void pair_with_batch(std::uint32_t row) {
    const auto same = std::find_if(batch_.begin(), batch_.end(), [&](std::uint32_t other) {
      return rows_.stack[other] == rows_.stack[row];
    });
    if (same == batch_.end()) return;
    found_.like.emplace(row, *same);
    note_factor(row, *same);
    batch_.erase(same);
  }

  [[nodiscard]] bool is_of_setup(StackId stack) const {
    return !stack.is_none() && before_.contains(stack.index);
  }

  // Whether one of the next rows continues at the current point of the whole step.
  [[nodiscard]] bool continues(std::size_t index, std::size_t at) const {
    constexpr std::size_t kSoon = 4;
    const std::size_t end = std::min(broken_.size(), index + 1 + kSoon);
    for (std::size_t next = index + 1; next < end; ++next) {
      if (is_same(broken_[next], whole_[at])) return true;
    }
    return false;
  }

  void note_factor(std::uint32_t row, std::uint32_t other) {
    const std::uint64_t before = rows_.requested_bytes[other];
    if (before < kSmallBytes) return;
    const double ratio =
        static_cast<double>(rows_.requested_bytes[row]) / static_cast<double>(before);
    std::uint64_t& bytes = bytes_by_factor_[ratio];
    bytes += before;
    if (bytes > most_bytes_) {
      most_bytes_ = bytes;
      factor_ = ratio;
    }
  }
  [[nodiscard]] double factor() const { return factor_; }

  // Where the failed request is in the whole step: its stack is known.
  [[nodiscard]] std::optional<std::uint32_t> find_failed(std::size_t at) const {
    if (at >= whole_.size()) return std::nullopt;
    const StackId stack = record_.events.stack[failed_at_];
    const std::size_t end = std::min(whole_.size(), at + kFarthest);
    for (std::size_t next = at; next < end; ++next) {
      if (rows_.stack[whole_[next]] == stack) return rows_.alloc_event[whole_[next]];
    }
    return std::nullopt;
  }

  // The first step's batch is loaded before it: the failed request loads part of the next.
  std::optional<std::uint32_t> find_failed_batch() {
    const StackId stack = record_.events.stack[failed_at_];
    const auto first = std::find_if(batch_.begin(), batch_.end(),
                                    [&](std::uint32_t row) { return rows_.stack[row] == stack; });
    if (whole_.empty() || first == batch_.end()) return std::nullopt;
    found_.missing_batch.assign(first, batch_.end());
    // If nothing else does, the request shows whether this batch has another size.
    const std::uint64_t before = rows_.requested_bytes[*first];
    const std::uint64_t asked = record_.events.size_bytes[failed_at_];
    constexpr std::uint64_t kRounding = 512;  // an error reports the size of the block
    const bool is_same = asked >= before && asked < before + kRounding;
    if (most_bytes_ == 0 && before >= kSmallBytes && !is_same)
      factor_ = static_cast<double>(asked) / static_cast<double>(before);
    return rows_.alloc_event[whole_.front()];
  }

  const DeviceRecord& record_;
  const AllocationColumns& rows_;
  std::vector<std::uint32_t> whole_;
  std::vector<std::uint32_t> broken_;
  std::vector<std::uint32_t> batch_;          // of the whole step, loaded before it; not paired yet
  std::unordered_set<std::uint32_t> before_;  // stacks of what was allocated before the whole step
  std::uint32_t failed_at_ = 0;
  std::map<double, std::uint64_t> bytes_by_factor_;
  std::uint64_t most_bytes_ = 0;
  double factor_ = 1;
  StepAlignment found_;
};

}  // namespace

std::optional<StepAlignment> align_steps(const DeviceRecord& record, EventRange whole,
                                         EventRange broken) {
  return Aligner(record, whole, broken).run();
}

}  // namespace gpumemprof
