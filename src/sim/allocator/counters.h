// The counters of torch.cuda.memory_stats(), kept by the simulated allocator with torch's own
// definitions and update order.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpumemprof::sim {

// Which half of a pool a block belongs to.
enum class PoolHalf : std::uint8_t { small, large };

// One quantity, for the small half, the large half and both. Peaks are independent maxima, as in
// torch.
class Stat {
 public:
  void increase(PoolHalf half, std::uint64_t amount) {
    const auto h = static_cast<std::size_t>(half);
    current_[h] += amount;
    allocated_[h] += amount;
    peak_[h] = std::max(peak_[h], current_[h]);
    peak_all_ = std::max(peak_all_, current_[0] + current_[1]);
  }
  void decrease(PoolHalf half, std::uint64_t amount) {
    current_[static_cast<std::size_t>(half)] -= amount;
  }
  // Torch records the net effect of a merge in one step, which is visible in its totals.
  void change(PoolHalf half, std::int64_t amount) {
    if (amount > 0) increase(half, static_cast<std::uint64_t>(amount));
    if (amount < 0) decrease(half, static_cast<std::uint64_t>(-amount));
  }
  void reset_peaks() {
    peak_ = current_;
    peak_all_ = current();
  }

  [[nodiscard]] std::uint64_t current() const { return current_[0] + current_[1]; }
  [[nodiscard]] std::uint64_t current(PoolHalf half) const {
    return current_[static_cast<std::size_t>(half)];
  }
  [[nodiscard]] std::uint64_t peak() const { return peak_all_; }
  [[nodiscard]] std::uint64_t peak(PoolHalf half) const {
    return peak_[static_cast<std::size_t>(half)];
  }
  // Everything ever added.
  [[nodiscard]] std::uint64_t allocated() const { return allocated_[0] + allocated_[1]; }
  [[nodiscard]] std::uint64_t allocated(PoolHalf half) const {
    return allocated_[static_cast<std::size_t>(half)];
  }

 private:
  std::array<std::uint64_t, 2> current_{};
  std::array<std::uint64_t, 2> peak_{};
  std::array<std::uint64_t, 2> allocated_{};
  std::uint64_t peak_all_ = 0;
};

struct Counters {
  Stat allocation;
  Stat allocated_bytes;
  Stat active;
  Stat active_bytes;
  Stat requested_bytes;
  Stat segment;
  Stat reserved_bytes;
  Stat inactive_split;
  Stat inactive_split_bytes;
  Stat oversize_allocations;
  Stat oversize_segments;
  std::uint64_t num_alloc_retries = 0;
  std::uint64_t num_ooms = 0;
  std::uint64_t num_sync_all_streams = 0;
  std::uint64_t num_device_alloc = 0;
  std::uint64_t num_device_free = 0;

  void reset_peaks();

  // By torch's name: "allocated_bytes.small_pool.peak", "num_ooms". Nothing for a name that is not
  // simulated.
  [[nodiscard]] std::optional<std::uint64_t> value(std::string_view name) const;
};

// All names that Counters::value() knows, as torch writes them.
std::vector<std::string> counter_names();

}  // namespace gpumemprof::sim
