#include "analysis/advice/step_alignment.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_set>
#include <vector>

namespace gpumemprof {
namespace {

// Rows that one step has and the other has not: workspaces, state, the batch's own loading.
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
      const bool is_in_whole = birth >= whole.first && birth < whole.end;
      if (is_in_whole && !is_made_once(row, whole.end)) whole_.push_back(row);
      if (birth >= broken.first && birth < broken.end) broken_.push_back(row);
    }
    failed_at_ = broken.end;
  }

  // State and workspaces that the first step makes for good.
  [[nodiscard]] bool is_made_once(std::uint32_t row, std::uint32_t end) const {
    const MemorySource source = record_.labels.source[row];
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
      // Of this step alone, or part of the setup where the whole step is the first.
      const bool is_alone = next == whole_.size() || (next > at && continues(index, at));
      if (!is_alone || !is_of_setup(rows_.stack[row])) all_bytes += rows_.requested_bytes[row];
      if (is_alone) continue;
      found_.like.emplace(row, whole_[next]);
      same_bytes += rows_.requested_bytes[row];
      note_factor(row, whole_[next]);
      at = next + 1;
    }
    constexpr std::uint64_t kMost = 10;
    const bool is_alike = kMost * same_bytes >= (kMost - 1) * all_bytes;
    const std::optional<std::uint32_t> failed = find_failed(at);
    if (!is_alike || !failed) return std::nullopt;
    found_.resume_event = *failed;
    found_.size_factor = factor();
    return std::move(found_);
  }

 private:
  [[nodiscard]] bool is_same(std::uint32_t row, std::uint32_t other) const {
    const StackId stack = rows_.stack[row];
    if (stack != rows_.stack[other]) return false;
    // Threads of autograd's own have no stack: sizes tell their requests apart.
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

  [[nodiscard]] bool is_of_setup(StackId stack) const {
    return !stack.is_none() && before_.contains(stack.index);
  }

  // Whether one of the next rows continues where the whole step stands.
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

  // Where the request that failed lies in the whole step: its stack is known.
  [[nodiscard]] std::optional<std::uint32_t> find_failed(std::size_t at) const {
    if (at >= whole_.size()) return std::nullopt;
    const StackId stack = record_.events.stack[failed_at_];
    const std::size_t end = std::min(whole_.size(), at + kFarthest);
    for (std::size_t next = at; next < end; ++next) {
      if (rows_.stack[whole_[next]] == stack) return rows_.alloc_event[whole_[next]];
    }
    // The first step's batch is loaded before it.
    if (at == 0 && is_of_setup(stack)) return rows_.alloc_event[whole_.front()];
    return std::nullopt;
  }

  const DeviceRecord& record_;
  const AllocationColumns& rows_;
  std::vector<std::uint32_t> whole_;
  std::vector<std::uint32_t> broken_;
  std::unordered_set<std::uint32_t> before_;  // stacks of what was made before the whole step
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
