#include "sim/allocator/counters.h"

#include <utility>

namespace gpumemprof::sim {
namespace {

constexpr std::array<std::pair<std::string_view, Stat Counters::*>, 11> kStats = {{
    {"allocation", &Counters::allocation},
    {"allocated_bytes", &Counters::allocated_bytes},
    {"active", &Counters::active},
    {"active_bytes", &Counters::active_bytes},
    {"requested_bytes", &Counters::requested_bytes},
    {"segment", &Counters::segment},
    {"reserved_bytes", &Counters::reserved_bytes},
    {"inactive_split", &Counters::inactive_split},
    {"inactive_split_bytes", &Counters::inactive_split_bytes},
    {"oversize_allocations", &Counters::oversize_allocations},
    {"oversize_segments", &Counters::oversize_segments},
}};

constexpr std::array<std::pair<std::string_view, std::uint64_t Counters::*>, 5> kCounts = {{
    {"num_alloc_retries", &Counters::num_alloc_retries},
    {"num_ooms", &Counters::num_ooms},
    {"num_sync_all_streams", &Counters::num_sync_all_streams},
    {"num_device_alloc", &Counters::num_device_alloc},
    {"num_device_free", &Counters::num_device_free},
}};

// Whatever was added and is no longer live was freed, so torch's fourth figure needs no storage.
std::optional<std::uint64_t> stat_value(const Stat& stat, std::string_view half,
                                        std::string_view figure) {
  const bool is_all = half.empty() || half == "all";
  if (!is_all && half != "small_pool" && half != "large_pool") return {};
  const PoolHalf which = half == "small_pool" ? PoolHalf::small : PoolHalf::large;
  const std::uint64_t current = is_all ? stat.current() : stat.current(which);
  const std::uint64_t allocated = is_all ? stat.allocated() : stat.allocated(which);
  if (figure == "current") return current;
  if (figure == "peak") return is_all ? stat.peak() : stat.peak(which);
  if (figure == "allocated") return allocated;
  if (figure == "freed") return allocated - current;
  return {};
}

}  // namespace

void Counters::reset_peaks() {
  for (const auto& [name, stat] : kStats) (this->*stat).reset_peaks();
}

std::optional<std::uint64_t> Counters::value(std::string_view name) const {
  for (const auto& [count_name, count] : kCounts) {
    if (count_name == name) return this->*count;
  }
  const std::size_t first_dot = name.find('.');
  if (first_dot == std::string_view::npos) return {};
  const std::size_t last_dot = name.rfind('.');
  const std::string_view half =
      first_dot == last_dot ? "" : name.substr(first_dot + 1, last_dot - first_dot - 1);
  for (const auto& [stat_name, stat] : kStats) {
    if (stat_name == name.substr(0, first_dot))
      return stat_value(this->*stat, half, name.substr(last_dot + 1));
  }
  return {};
}

std::vector<std::string> counter_names() {
  std::vector<std::string> names;
  for (const auto& [stat_name, stat] : kStats) {
    for (const char* half : {"all", "small_pool", "large_pool"}) {
      for (const char* figure : {"current", "peak", "allocated", "freed"})
        names.push_back(std::string(stat_name) + '.' + half + '.' + figure);
    }
  }
  for (const auto& [count_name, count] : kCounts) names.emplace_back(count_name);
  return names;
}

}  // namespace gpumemprof::sim
