#include "index/checkpoint_steps.h"

#include "trace/bytes_io.h"

namespace gpumemprof {
namespace {

// Unsigned, so that nothing overflows.
std::uint64_t as_number(std::int64_t value) { return static_cast<std::uint64_t>(value); }
std::int64_t as_time(std::uint64_t value) { return static_cast<std::int64_t>(value); }

}  // namespace

void to_steps(std::vector<OldAllocation>& allocations) {
  OldAllocation last;
  last.time_ns = 0;
  for (OldAllocation& old : allocations) {
    const OldAllocation now = old;
    old.address = trace::zigzag(as_time(now.address - last.address));
    old.time_ns = as_time(as_number(now.time_ns) - as_number(last.time_ns));
    old.birth_event = now.birth_event - last.birth_event;
    last = now;
  }
}

void from_steps(std::vector<OldAllocation>& allocations) {
  OldAllocation last;
  last.time_ns = 0;
  for (OldAllocation& old : allocations) {
    old.address = last.address + as_number(trace::unzigzag(old.address));
    old.time_ns = as_time(as_number(last.time_ns) + as_number(old.time_ns));
    old.birth_event += last.birth_event;
    last = old;
  }
}

}  // namespace gpumemprof
