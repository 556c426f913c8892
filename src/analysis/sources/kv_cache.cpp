#include "analysis/sources/kv_cache.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "analysis/phases/run_kind.h"
#include "analysis/sources/cache_code.h"
#include "analysis/sources/workspace.h"

namespace gpumemprof {
namespace {

class CacheFinder {
 public:
  CacheFinder(const Store& store, const DeviceRecord& record)
      : record_(record),
        rows_(record.allocations),
        kinds_(code_kinds(store)),
        calls_(find_forward_calls(store, record, kinds_)),
        code_(store),
        is_cache_(rows_.size(), false) {}

  std::vector<bool> run() {
    find_named();
    std::map<std::uint32_t, std::vector<std::uint32_t>> by_stack;
    for (std::uint32_t row = 0; row < rows_.size(); ++row) {
      const StackId stack = rows_.stack[row];
      if (rows_.alloc_event[row] == kNoEvent || stack.is_none() ||
          kinds_[stack.index] != CodeKind::forward)
        continue;
      by_stack[stack.index].push_back(row);
      forward_rows_.push_back(row);
    }
    const auto is_older = [&](std::uint32_t a, std::uint32_t b) { return birth(a) < birth(b); };
    std::stable_sort(forward_rows_.begin(), forward_rows_.end(), is_older);
    for (const auto& [stack, rows] : by_stack) {
      find_growing(rows);
      find_static(rows);
    }
    return std::move(is_cache_);
  }

 private:
  // Consecutive rows of one size: usually one per layer.
  struct Generation {
    std::size_t first = 0;
    std::size_t count = 0;
    std::uint64_t size_bytes = 0;
  };

  [[nodiscard]] std::uint32_t birth(std::uint32_t row) const { return rows_.alloc_event[row]; }
  [[nodiscard]] std::uint32_t death(std::uint32_t row) const {
    return rows_.free_requested_event[row];
  }
  // A call that began after the one it was allocated in, or for, began while it was live.
  [[nodiscard]] bool sees_a_later_call(std::uint32_t row) const {
    const auto next =
        static_cast<std::size_t>(birth(row) == kNoEvent ? 0 : call_at(calls_, birth(row)) + 1);
    const bool is_of_forward =
        !rows_.stack[row].is_none() && kinds_[rows_.stack[row].index] == CodeKind::forward;
    // What was allocated outside forward is for the next call; it must see the one after that.
    const std::size_t needed = next + (is_of_forward ? 0 : 1);
    return needed < calls_.size() && death(row) > calls_[needed].first_event;
  }

  void find_named() {
    for (std::uint32_t row = 0; row < rows_.size(); ++row) {
      if (code_.holds(record_, row) && sees_a_later_call(row)) is_cache_[row] = true;
    }
  }

  [[nodiscard]] std::vector<Generation> generations(const std::vector<std::uint32_t>& rows) const {
    std::vector<Generation> found;
    for (std::size_t index = 0; index < rows.size(); ++index) {
      const std::uint64_t size = rows_.requested_bytes[rows[index]];
      if (found.empty() || found.back().size_bytes != size) found.push_back({index, 0, size});
      ++found.back().count;
    }
    return found;
  }

  // Every row of `older` lives until its successor is allocated.
  [[nodiscard]] bool is_replaced(const std::vector<std::uint32_t>& rows, const Generation& older,
                                 const Generation& newer) const {
    const bool grows = newer.size_bytes > older.size_bytes &&
                       newer.size_bytes - older.size_bytes <= older.size_bytes;
    if (!grows || newer.count > older.count) return false;
    for (std::size_t index = 0; index < newer.count; ++index) {
      if (death(rows[older.first + index]) < birth(rows[newer.first + index])) return false;
    }
    return true;
  }

  void find_growing(const std::vector<std::uint32_t>& rows) {
    constexpr std::size_t kShortest = 3;  // sizes, one after the other
    const std::vector<Generation> all = generations(rows);
    std::size_t first = 0;
    for (std::size_t index = 1; index <= all.size(); ++index) {
      if (index < all.size() && is_replaced(rows, all[index - 1], all[index])) continue;
      if (index - first >= kShortest) mark(rows, all[first], all[index - 1]);
      first = index;
    }
  }

  void mark(const std::vector<std::uint32_t>& rows, const Generation& first,
            const Generation& last) {
    for (std::size_t index = first.first; index < last.first + last.count; ++index)
      is_cache_[rows[index]] = true;
    Front front{rows[first.first], rows[first.first + first.count - 1], first.count,
                first.size_bytes};
    // The stacks of the first calls differ where hooks run in these only.
    constexpr int kMostCalls = 3;
    for (int calls = 0; calls < kMostCalls && find_replaced_by(front); ++calls) continue;
  }

  // The first of a chain, in one call.
  struct Front {
    std::uint32_t first_row = 0;
    std::uint32_t last_row = 0;
    std::size_t count = 0;  // of one size, usually one for each layer
    std::uint64_t size_bytes = 0;
  };

  // If the first call passes on the projections themselves, possibly as views, the first of the
  // chain replace those: allocated in the previous call, and freed either soon after their
  // successors are allocated, or with the whole list of layers when the call returns. The front
  // then moves to that call; false: there is nothing.
  bool find_replaced_by(Front& front) {
    constexpr std::uint32_t kSoon = 6;  // events
    const std::ptrdiff_t call = call_at(calls_, birth(front.first_row));
    if (call < 1) return false;
    const ForwardCall& before = calls_[static_cast<std::size_t>(call) - 1];
    const std::size_t next = static_cast<std::size_t>(call) + 1;
    const std::uint32_t returned = next < calls_.size() ? calls_[next].first_event : kNoEvent;
    const auto begin = std::lower_bound(
        forward_rows_.begin(), forward_rows_.end(), before.first_event,
        [&](std::uint32_t row, std::uint32_t event) { return birth(row) < event; });
    std::vector<std::uint32_t> found;
    std::map<std::pair<std::uint32_t, std::uint64_t>, std::vector<std::uint32_t>> alike;
    for (auto row = begin; row != forward_rows_.end() && birth(*row) <= before.last_event; ++row) {
      if (death(*row) <= birth(front.first_row)) continue;
      const std::uint64_t bytes = rows_.requested_bytes[*row];
      if (death(*row) <= birth(front.last_row) + kSoon) {
        found.push_back(*row);
      } else if (death(*row) < returned && bytes >= front.size_bytes / 2) {
        alike[{rows_.stack[*row].index, bytes}].push_back(*row);
      }
    }
    // One for each layer; what the model returned is only one.
    for (const auto& [key, set] : alike) {
      if (set.size() >= 2 && set.size() >= front.count)
        found.insert(found.end(), set.begin(), set.end());
    }
    if (found.empty()) return false;
    for (const std::uint32_t row : found) is_cache_[row] = true;
    const auto by_birth = [&](std::uint32_t a, std::uint32_t b) { return birth(a) < birth(b); };
    const auto by_size = [&](std::uint32_t a, std::uint32_t b) {
      return rows_.requested_bytes[a] < rows_.requested_bytes[b];
    };
    const auto [first, last] = std::ranges::minmax_element(found, by_birth);
    front.first_row = *first;
    front.last_row = *last;
    front.size_bytes = rows_.requested_bytes[*std::ranges::min_element(found, by_size)];
    return true;
  }

  // Allocated in one call only, at least a pair of one size, and live for all calls that follow.
  void find_static(const std::vector<std::uint32_t>& rows) {
    if (calls_.size() < 3 || rows.size() < 2) return;
    const std::ptrdiff_t call = call_at(calls_, birth(rows.front()));
    const std::uint64_t size = rows_.requested_bytes[rows.front()];
    if (is_cublas_workspace(size) || is_cublaslt_workspace(size)) return;
    const bool is_one_set = std::all_of(rows.begin(), rows.end(), [&](std::uint32_t row) {
      return call_at(calls_, birth(row)) == call && rows_.requested_bytes[row] == size &&
             death(row) > calls_.back().first_event;
    });
    if (!is_one_set || static_cast<std::size_t>(call) + 2 >= calls_.size()) return;
    for (const std::uint32_t row : rows) is_cache_[row] = true;
  }

  const DeviceRecord& record_;
  const AllocationColumns& rows_;
  std::vector<CodeKind> kinds_;
  std::vector<ForwardCall> calls_;
  CacheCode code_;
  std::vector<std::uint32_t> forward_rows_;  // allocated by forward, in order of birth
  std::vector<bool> is_cache_;
};

}  // namespace

std::vector<bool> find_kv_cache(const Store& store, const DeviceRecord& record) {
  return CacheFinder(store, record).run();
}

}  // namespace gpumemprof
