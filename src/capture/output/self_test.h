// SelfTest: checks that the events we read add up to what torch itself lists.
//
// From the join on it keeps the allocated blocks as the events report them; when torch lists them
// the second time, both must be the same: every address, every size, on every device. It costs the
// program nothing and allocates nothing on the device: the blocks are the program's own. For the
// drain thread alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/flat_map.h"
#include "capture/capture.h"
#include "capture/device_slot.h"

namespace gpumemprof::capture {

class SelfTest {
 public:
  // What torch listed at the join; events that came in between are kept until then.
  void begin(const std::vector<ListedSegment>& segments);
  void take(DeviceSlot device, Action action, std::uint64_t address, std::uint64_t size_bytes);
  // Events were lost: no conclusion is possible any more.
  void mark_incomplete() { is_incomplete_ = true; }
  [[nodiscard]] bool is_incomplete() const { return is_incomplete_; }
  // torch lists the device at this moment.
  void freeze(DeviceSlot device);
  // Why the two disagree; nothing if they agree.
  [[nodiscard]] std::optional<std::string> contradiction(
      const std::vector<ListedSegment>& segments) const;

 private:
  struct ReportedEvent {
    DeviceSlot device = 0;
    Action action = Action::other;
    std::uint64_t address = 0;
    std::uint64_t size_bytes = 0;
  };
  using Blocks = FlatMap<std::uint64_t>;  // requested bytes by address

  static Blocks& of(std::vector<Blocks>& devices, DeviceSlot device);
  void apply(const ReportedEvent& event);

  bool has_begun_ = false;
  bool is_incomplete_ = false;
  std::vector<ReportedEvent> early_;
  std::vector<Blocks> allocated_;  // by device
  std::vector<Blocks> frozen_;
};

}  // namespace gpumemprof::capture
