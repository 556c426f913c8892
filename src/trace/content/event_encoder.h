// EventEncoder: a run of one device's events → the columns of an events block.
//
// What an event repeats is not written again. Every event makes an anchor (address, size, stream),
// except a free that refers to one; an event at the address of an anchor of the same block and
// stream only says how many anchors ago that was. So a free costs no address and no size, and
// neither does an allocation that reuses a block. A training step repeats itself, and then so do
// all columns but the times, which is what makes the compression effective.
//
//   alloc  A 1 KiB     explicit: address, size           anchor 0
//   alloc  B 4 KiB     explicit                          anchor 1
//   free   A           2 anchors ago, same size
//   alloc  A 1 KiB     2 anchors ago, same size          anchor 2
//
// Nothing is carried over from one block to the next.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/flat_map.h"
#include "event/event.h"
#include "trace/bytes_io.h"
#include "trace/format.h"

namespace gpumemprof::trace {

class EventEncoder {
 public:
  // The content of one block, in parts that stay valid until the next call. At most
  // kMaxBlockEvents.
  std::span<const std::span<const std::uint8_t>> encode(DeviceIndex device,
                                                        const EventColumns& events,
                                                        std::size_t first, std::size_t count);

 private:
  struct Anchor {
    std::uint64_t size_bytes = 0;
    std::uint32_t stream = 0;
    std::uint32_t ordinal = 0;
  };
  class OperationLoop;
  enum class TimeMode : std::uint8_t { none, all, some };

  OutBytes& column(EventColumn which) { return columns_[static_cast<std::size_t>(which)]; }
  TimeMode encode_times(std::span<const std::int64_t> times);
  template <std::int64_t kUnitNs>
  void put_times(std::span<const std::int64_t> times);
  template <typename T, typename RowOf>
  void encode_optional(EventColumn which, const Column<T>& values, std::size_t first,
                       std::size_t count, RowOf row_of);

  std::array<OutBytes, kEventColumnCount> columns_;
  OutBytes head_;
  std::vector<std::span<const std::uint8_t>> parts_;
  FlatMap<Anchor> anchors_;       // address → the newest anchor there
  FlatMap<std::uint32_t> sizes_;  // a size → its row in the block's table of sizes
  std::vector<std::int64_t> time_steps_;
  std::int64_t first_time_ns_ = 0;
  std::int64_t time_unit_ns_ = 1;
};

}  // namespace gpumemprof::trace
