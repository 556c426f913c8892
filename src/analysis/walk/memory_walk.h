// MemoryWalk: one device's memory after every event, in order: by source, in all and reserved. A
// run that is read in parts is walked part after part.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "analysis/sources/sources.h"
#include "store/store.h"

namespace gpumemprof {

struct LiveMemory {
  SourceBytes sources;
  // How many live blocks of each source have it by inference, not by a label.
  std::array<std::uint64_t, kMemorySourceCount> inferred_blocks{};
  std::uint64_t allocated_bytes = 0;
  std::uint64_t reserved_bytes = 0;
};

// Events [first_event, first_event + events) of a record, which has labels.
struct WalkedPart {
  const DeviceRecord& record;
  std::size_t first_event = 0;
  std::size_t events = 0;
  bool is_start = false;  // of the run
};

class MemoryWalk {
 public:
  [[nodiscard]] const LiveMemory& live() const { return live_; }

  // Calls visitor.started(live) before the first event of the run, visitor.changed(event, row,
  // is_birth, live) for each allocation that is made or freed, visitor.reserved(event, live) where
  // the pool grows or shrinks, and visitor.passed(event, live) after each event; events and rows
  // are those of the record.
  template <typename Visitor>
  void pass(const WalkedPart& part, Visitor& visitor) {
    if (part.is_start) {
      start(part.record);
      visitor.started(live_);
    }
    find_changes(part);
    for (std::size_t event = 0; event < part.events; ++event) {
      const auto place = static_cast<std::uint32_t>(part.first_event + event);
      bool is_pool_changed = false;
      for (std::uint32_t at = first_change_[event]; at < first_change_[event + 1]; ++at) {
        const Change& change = changes_[at];
        if (change.kind == Kind::birth || change.kind == Kind::death) {
          apply(part.record, change);
          visitor.changed(place, change.row, change.kind == Kind::birth, live_);
        } else {
          const std::uint64_t bytes = part.record.segments.size_bytes[change.row];
          live_.reserved_bytes += change.kind == Kind::grows ? bytes : ~bytes + 1;
          is_pool_changed = true;
        }
      }
      // Once: what is left of a segment that loses pages ends and begins at the same event.
      if (is_pool_changed) visitor.reserved(place, live_);
      visitor.passed(place, live_);
    }
  }

 private:
  enum class Kind : std::uint8_t { death, birth, grows, shrinks };
  struct Change {
    std::uint32_t row = 0;
    Kind kind = Kind::birth;
  };

  // What is live before the first event.
  void start(const DeviceRecord& record);
  void find_changes(const WalkedPart& part);
  void apply(const DeviceRecord& record, const Change& change);

  LiveMemory live_;
  std::vector<std::uint32_t> first_change_;  // of each event of the part, and after the last
  std::vector<Change> changes_;
};

}  // namespace gpumemprof
