#include "analysis/random_history.h"

#include "analysis/timeline/live_changes.h"

namespace gpumemprof {
namespace {

constexpr std::uint32_t kMostForPeak = 2000;  // the scan for the peak is quadratic

StackId random_stack(Store& store, std::mt19937& random) {
  const char* const names[] = {"main", "train", "forward", "step", "linear", "backward"};
  const char* const files[] = {"/train/case.py", "/venv/lib/python3.12/site-packages/torch/nn.py"};
  StackId stack;
  for (std::size_t depth = random() % 5; depth > 0; --depth) {
    const FrameId frame = store.add_frame({store.add_string(names[random() % 6]),
                                           store.add_string(files[random() % 2]),
                                           static_cast<std::uint32_t>(random() % 3)});
    stack = store.add_stack(stack, frame);
  }
  return stack;
}

void add_event(EventColumns& events, std::mt19937& random, std::int64_t& time_ns) {
  Event event;
  event.action = Action::alloc;
  time_ns += static_cast<std::int64_t>(random() % 4);  // some happen at the same time
  event.time_ns = time_ns;
  events.push_back(event);
}

}  // namespace

RandomHistory::RandomHistory(unsigned seed, std::uint32_t events) {
  std::mt19937 random(seed);
  store.add_stream(0);
  EventColumns columns;
  std::int64_t time_ns = 1000;
  for (std::uint32_t event = 0; event < events; ++event) add_event(columns, random, time_ns);
  store.add_events(0, std::move(columns));
  record = store.devices().front().get();

  AllocationColumns& rows = record->allocations;
  const auto add = [&](std::uint32_t birth) {
    const std::uint32_t first = birth == kNoEvent ? 0 : birth + 1;
    const std::uint32_t lives = static_cast<std::uint32_t>(random() % 200);
    const std::uint32_t death = first + lives < events ? first + lives : kNoEvent;
    const std::uint64_t requested = 1 + random() % 5000;
    rows.address.push_back(0x1000 * (rows.size() + 1));
    rows.size_bytes.push_back((requested + 511) / 512 * 512);
    rows.requested_bytes.push_back(requested);
    rows.alloc_event.push_back(birth);
    rows.free_requested_event.push_back(death);
    const bool waits = death != kNoEvent && death + 3 < events && random() % 4 == 0;
    rows.free_completed_event.push_back(waits ? death + 3 : death);
    rows.stream.push_back(0);
    rows.stack.push_back(random_stack(store, random));
    rows.segment.push_back(SegmentId());
    record->labels.source.push_back(static_cast<MemorySource>(random() % kMemorySourceCount));
    record->labels.flags.push_back(0);
  };
  for (int before = 0; before < 20; ++before) add(kNoEvent);
  for (std::uint32_t event = 0; event < events; ++event) {
    if (random() % 2 == 0) add(event);
  }
  // Freed before the first event, but still in use by a stream then.
  rows.pending_at_start.push_back(AllocationId(3));
  rows.free_requested_event[3] = 0;
  rows.free_completed_event[3] = 5;
  replay.has_history = true;

  if (events > kMostForPeak) return;
  for (Position position = 0; position <= events; ++position) {
    const std::uint64_t bytes = allocated_at(moment_of(position));
    if (position == 0 || bytes > replay.peak.allocated_bytes) {
      replay.peak.allocated_bytes = bytes;
      replay.peak_event = position == 0 ? kNoEvent : position - 1;
    }
  }
}

std::uint64_t RandomHistory::allocated_at(Moment moment) const {
  std::uint64_t bytes = 0;
  for (std::size_t row = 0; row < record->allocations.size(); ++row) {
    if (record->allocations.is_allocated_at(row, moment))
      bytes += record->allocations.size_bytes[row];
  }
  return bytes;
}

}  // namespace gpumemprof
