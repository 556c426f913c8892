// MappedRanges: ranges of addresses, and what remains of them without others.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace gpumemprof {

class MappedRanges {
 public:
  using Range = std::pair<std::uint64_t, std::uint64_t>;  // [first, second)

  // In order of address.
  void add(std::uint64_t address, std::uint64_t size_bytes) {
    const std::uint64_t end = address + size_bytes;
    if (end <= address) return;  // empty, or forged
    if (!ranges_.empty() && address <= ranges_.back().second) {
      if (end > ranges_.back().second) ranges_.back().second = end;
    } else {
      ranges_.emplace_back(address, end);
    }
  }

  [[nodiscard]] std::vector<Range> without(const MappedRanges& others) const {
    std::vector<Range> rest;
    for (auto [begin, end] : ranges_) {
      for (const auto& [gone_begin, gone_end] : others.ranges_) {
        if (gone_end <= begin) continue;
        if (gone_begin >= end) break;
        if (gone_begin > begin) rest.emplace_back(begin, gone_begin);
        begin = gone_end;
        if (begin >= end) break;
      }
      if (begin < end) rest.emplace_back(begin, end);
    }
    return rest;
  }

 private:
  std::vector<Range> ranges_;
};

}  // namespace gpumemprof
