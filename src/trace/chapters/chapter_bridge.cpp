#include "trace/chapters/chapter_join.h"
#include "trace/chapters/mapped_ranges.h"

namespace gpumemprof {
namespace {

Event event_of(Action action, std::uint64_t address, std::uint64_t size_bytes, std::uint32_t stream,
               std::int64_t time_ns) {
  Event event;
  event.action = action;
  event.address = address;
  event.size_bytes = size_bytes;
  event.stream = stream;
  event.time_ns = time_ns;
  return event;
}

}  // namespace

EventColumns ChapterJoin::bridging_events(const Device& device, DeviceIndex index,
                                          const ListedBlocks& listed, std::int64_t time_ns) const {
  EventColumns events;
  const auto add = [&](Action action, std::uint64_t address, const Live& live) {
    events.push_back(event_of(action, address, live.requested_bytes, live.stream, time_ns));
  };
  std::map<std::uint64_t, Live> known;
  device.live.for_each([&](std::uint64_t address, const Live& live) { known[address] = live; });
  std::map<std::uint64_t, bool> survivors;
  for (const auto& [address, live] : known) {
    const auto found = listed.find(address);
    const bool survives =
        found != listed.end() && found->second.block->requested_bytes == live.requested_bytes &&
        found->second.live != nullptr && found->second.live->time_ns == live.time_ns;
    const bool is_freed =
        !survives || found->second.block->state != BlockStateKind::active_allocated;
    if (is_freed && !live.is_pending) add(Action::free_requested, address, live);
    if (!survives) add(Action::free_completed, address, live);
    if (survives) survivors[address] = true;
  }
  if (has_pool_) add_reserved_changes(device, index, time_ns, events);
  for (const auto& [address, one] : listed) {
    if (survivors.contains(address)) continue;
    const std::uint32_t stream = one.live == nullptr ? one.segment->stream : one.live->stream;
    if (has_pool_) {
      events.push_back(event_of(Action::placed, address, one.block->size_bytes, stream, time_ns));
    }
    Event event = event_of(Action::alloc, address, one.block->requested_bytes, stream, time_ns);
    event.stack = one.block->stack;
    event.pool = one.segment->pool;
    if (one.live != nullptr) {
      event.forward_stack = one.live->forward_stack;
      event.user_metadata = one.live->user_metadata;
      event.module = one.live->module;
    }
    events.push_back(event);
    if (one.block->state == BlockStateKind::active_pending_free) {
      events.push_back(
          event_of(Action::free_requested, address, one.block->requested_bytes, stream, time_ns));
    }
  }
  return events;
}

void ChapterJoin::add_reserved_changes(const Device& device, DeviceIndex index,
                                       std::int64_t time_ns, EventColumns& events) const {
  const auto add = [&](Action action, std::uint64_t address, std::uint64_t size_bytes,
                       const Reserved& like) {
    Event event = event_of(action, address, size_bytes, like.stream, time_ns);
    event.pool = like.pool;
    event.stack = like.stack;
    events.push_back(event);
  };
  std::map<std::uint64_t, Reserved> after;
  for (const ListedSegment& listed : listed_) {
    const SegmentState& segment = listed.segment;
    if (segment.device != index) continue;
    after[segment.address] = {segment.size_bytes, segment.is_expandable, segment.stream,
                              segment.pool, segment.stack};
  }
  const auto is_plain_in = [](const auto& where, std::uint64_t address, const Reserved& one) {
    const auto found = where.find(address);
    return found != where.end() && !found->second.is_expandable &&
           found->second.size_bytes == one.size_bytes;
  };
  MappedRanges mapped_before;
  MappedRanges mapped_after;
  for (const auto& [address, one] : device.reserved) {
    if (one.is_expandable) {
      mapped_before.add(address, one.size_bytes);
    } else if (!is_plain_in(after, address, one)) {
      add(Action::segment_free, address, one.size_bytes, Reserved());
    }
  }
  for (const auto& [address, one] : after) {
    if (one.is_expandable) mapped_after.add(address, one.size_bytes);
  }
  for (const auto& [begin, end] : mapped_before.without(mapped_after))
    add(Action::segment_unmap, begin, end - begin, Reserved());
  for (const auto& [address, one] : after) {
    if (one.is_expandable) {
      MappedRanges run;
      run.add(address, one.size_bytes);
      for (const auto& [begin, end] : run.without(mapped_before))
        add(Action::segment_map, begin, end - begin, one);
    } else if (!is_plain_in(device.reserved, address, one)) {
      add(Action::segment_alloc, address, one.size_bytes, one);
    }
  }
}

}  // namespace gpumemprof
