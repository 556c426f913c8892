// Any bytes, read as a snapshot and replayed: nothing may crash, throw or break an invariant of the
// figures.
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "ingest/torch_snapshot.h"
#include "replay/replay.h"
#include "store/store.h"

namespace {

using gpumemprof::DeviceRecord;
using gpumemprof::DeviceReplay;
using gpumemprof::MemoryTotals;

// Not assert(): checked in every build.
void promise(bool kept, const char* what) {
  if (kept) return;
  std::fprintf(stderr, "broken promise: %s\n", what);
  std::abort();
}

bool is_ordered(const MemoryTotals& totals) {
  return totals.allocated_bytes <= totals.active_bytes &&
         totals.active_bytes <= totals.reserved_bytes;
}

void check_lifetimes(const DeviceRecord& record) {
  const auto& allocations = record.allocations;
  for (std::size_t row = 0; row < allocations.size(); ++row) {
    promise(allocations.free_requested_event[row] <= allocations.free_completed_event[row],
            "a free is requested before it completes");
    promise(allocations.alloc_event[row] == gpumemprof::kNoEvent ||
                allocations.alloc_event[row] <= allocations.free_requested_event[row],
            "a block is handed out before it is freed");
    promise(allocations.segment[row].index < record.segments.size(), "a block lies in a segment");
  }
}

void check_replay(const DeviceRecord& record, const DeviceReplay& replay) {
  check_lifetimes(record);
  if (!replay.has_history || replay.exact_from_event != 0U) return;
  promise(is_ordered(replay.start) && is_ordered(replay.peak) && is_ordered(replay.end.totals),
          "allocated <= active <= reserved");
  promise(replay.end.totals.allocated_bytes <= replay.peak.allocated_bytes,
          "the end is below the peak");
  promise(replay.peak.allocated_bytes <= replay.peak_reserved_bytes,
          "the peak fits into what was reserved");
  promise(replay.contradictions == 0, "an exact history has no contradictions");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  gpumemprof::Store store;
  const gpumemprof::Status delivered =
      gpumemprof::TorchSnapshot::from_bytes(bytes, "fuzz")->deliver(store);
  if (!delivered) {
    const gpumemprof::Error& error = delivered.error();
    promise(error.code == gpumemprof::ErrorCode::bad_input, "a bad file is bad input");
    promise(error.where.find("byte ") != std::string::npos, "a refusal names a byte");
    return 0;
  }
  for (const auto& record : store.devices()) {
    check_replay(*record, gpumemprof::replay_device(*record, store.settings(), store.origin()));
  }
  return 0;
}
