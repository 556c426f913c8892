// Why an allocation failed: true shortage, or memory that was free but in the wrong pieces.
#pragma once

#include <vector>

#include "analysis/fragmentation/free_memory.h"
#include "store/store.h"

namespace gpumemprof {

enum class OomCause : std::uint8_t {
  shortage,       // even in one piece, all that was free would not have been enough
  fragmentation,  // enough was free, but in pieces, or held by the pool where it could not be
                  // returned
  limit,          // the card had room; a limit set on this process refused it
};

struct OomReport {
  std::uint32_t event = kNoEvent;
  std::uint64_t wanted_bytes = 0;                   // rounded
  std::uint64_t device_free_bytes = kUnknownBytes;  // as the driver said
  std::uint64_t largest_free_bytes = 0;             // one piece, of the stream that asked
  OomCause cause = OomCause::shortage;
  FreeMemory memory;  // when it failed, all that could be returned being returned
  StackId stack;
};

// At most `limit` of them, the first ones: each is a sweep over the whole history.
std::vector<OomReport> find_ooms(const DeviceRecord& record, const Store& store, std::size_t limit);

}  // namespace gpumemprof
