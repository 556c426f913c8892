#include "trace/content/ending.h"

#include "trace/content/device.h"
#include "trace/content/short_text.h"

namespace gpumemprof::trace {
namespace {

constexpr std::uint8_t kHasCounts = 1;
constexpr std::uint8_t kAreExact = 2;
constexpr std::uint8_t kWasClosed = 4;  // not set in a copy of a recording that was never closed

void put_counts(OutBytes& out, const EventCounts& counts) {
  out.varint(counts.allocations);
  out.varint(counts.frees);
  out.varint(counts.others);
}

EventCounts take_counts(InBytes& in) {
  EventCounts counts;
  counts.allocations = in.varint();
  counts.frees = in.varint();
  counts.others = in.varint();
  return counts;
}

}  // namespace

void encode_end(OutBytes& out, const Ending& ending, std::uint64_t events) {
  put_text(out, ending.reason);
  out.varint(events);
  put_text(out, ending.problem);
  out.byte(static_cast<std::uint8_t>((ending.has_counts ? kHasCounts : 0) |
                                     (ending.are_counts_exact ? kAreExact : 0) |
                                     (ending.is_closed ? kWasClosed : 0)));
  out.varint(ending.devices.size());
  for (const DeviceCounts& counts : ending.devices) {
    out.signed_varint(counts.device);
    put_counts(out, counts.made);
    put_counts(out, counts.lost);
    out.varint(counts.inferred_frees);
  }
}

bool decode_end(InBytes in, Ending& ending, std::uint64_t& events) {
  ending = Ending();
  ending.reason = take_text(in);
  events = in.varint();
  ending.problem = take_text(in);
  const std::uint8_t flags = in.byte();
  ending.has_counts = (flags & kHasCounts) != 0;
  ending.are_counts_exact = (flags & kAreExact) != 0;
  ending.is_closed = (flags & kWasClosed) != 0;
  for (std::size_t count = in.count(); count > 0 && in.ok(); --count) {
    DeviceCounts counts;
    counts.device = take_device(in);
    counts.made = take_counts(in);
    counts.lost = take_counts(in);
    counts.inferred_frees = in.varint();
    ending.devices.push_back(counts);
  }
  return in.is_spent();
}

}  // namespace gpumemprof::trace
