// LimitFinder: finds the memory limit of a recording (limit.h) while its events pass.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "sim/limit.h"

namespace gpumemprof::sim {

class LimitFinder {
 public:
  // The settings must outlive it.
  LimitFinder(std::span<const SegmentState> start, const AllocatorSettings& settings);

  // The event in this row, which is number `number` of the run.
  void read(const EventColumns& events, std::size_t row, std::uint32_t number);
  [[nodiscard]] std::optional<InferredLimit> found() const;

 private:
  void forget_burst();
  void read_success(StackId stack, std::uint32_t number, std::uint64_t segment_bytes);
  void read_oom(std::uint64_t device_free_bytes, std::uint32_t number, std::uint64_t segment_bytes);
  void prove(std::uint32_t number, std::uint64_t too_much_bytes, bool is_oom);

  const AllocatorSettings& settings_;
  std::uint64_t reserved_bytes_ = 0;
  std::uint64_t before_fresh_bytes_ = 0;
  std::uint64_t before_release_bytes_ = 0;
  std::uint64_t low_bytes_ = 0;
  std::uint64_t high_bytes_ = kNoLimit;
  std::uint64_t device_bytes_ = kNoLimit;
  std::optional<StackId> release_stack_;  // of the first release of a burst
  std::uint32_t event_ = kNoEvent;
  bool is_growing_ = false;
  bool is_from_oom_ = false;
};

}  // namespace gpumemprof::sim
