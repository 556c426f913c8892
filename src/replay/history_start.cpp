#include "replay/history_start.h"

#include <algorithm>
#include <iterator>

namespace gpumemprof {
namespace {

class Rewinder {
 public:
  Rewinder(const DeviceRecord& record, const AllocatorSettings& settings)
      : record_(record), settings_(settings) {}

  HistoryStart run() {
    take_final_state();
    for (std::size_t event = record_.events.size(); event-- > 0;) rewind(event);
    return assemble();
  }

 private:
  void take_final_state() {
    const ListedState& final_state = record_.final_state;
    for (std::size_t index = 0; index < final_state.segments.size(); ++index) {
      const SegmentState& segment = final_state.segments[index];
      segments_[segment.address] = segment;
      for (const BlockState& block : final_state.blocks_of(index)) {
        if (block.state == BlockStateKind::inactive) continue;
        live_[block.address] = {block.address,
                                block.size_bytes,
                                block.requested_bytes,
                                segment.stream,
                                block.stack,
                                block.state == BlockStateKind::active_pending_free,
                                true};
      }
    }
  }

  void rewind(std::size_t event) {
    const EventColumns& events = record_.events;
    const std::uint64_t address = events.address[event];
    const std::uint64_t size_bytes = events.size_bytes[event];
    switch (events.action[event]) {
      case Action::alloc:
        live_.erase(address);
        break;
      case Action::free_completed:
        live_[address] = {address, 0, size_bytes, events.stream[event], StackId(), true, false};
        break;
      case Action::free_requested: {
        // A trace without free_completed events still reports the block here.
        const auto [block, is_new] = live_.try_emplace(address);
        if (is_new)
          block->second = {address, 0, size_bytes, events.stream[event], StackId(), false, false};
        block->second.is_pending = false;
        break;
      }
      case Action::segment_alloc:
        segments_.erase(address);
        break;
      case Action::segment_free:
        add_segment(event, false);
        break;
      case Action::segment_map:
        cut(address, size_bytes);
        break;
      case Action::segment_unmap:
        add_segment(event, true);
        break;
      default:
        break;
    }
  }

  void add_segment(std::size_t event, bool is_expandable) {
    SegmentState segment;
    segment.device = record_.device;
    segment.address = record_.events.address[event];
    segment.size_bytes = record_.events.size_bytes[event];
    segment.stream = record_.events.stream[event];
    segment.is_expandable = is_expandable;
    segment.is_small = segment.size_bytes == kSmallSegmentBytes;
    if (!record_.events.pool.empty()) segment.pool = record_.events.pool[event];
    segments_[segment.address] = segment;
  }

  // Removes [address, address + size) from the mapped runs that cover it.
  void cut(std::uint64_t address, std::uint64_t size_bytes) {
    const std::uint64_t end = address + size_bytes;
    auto run = segments_.upper_bound(address);
    if (run != segments_.begin()) run = std::prev(run);
    while (run != segments_.end() && run->first < end) {
      const SegmentState old = run->second;
      const std::uint64_t old_end = old.address + old.size_bytes;
      if (!old.is_expandable || old_end <= address) {
        ++run;
        continue;
      }
      run = segments_.erase(run);
      if (old.address < address) {
        segments_[old.address] = old;
        segments_[old.address].size_bytes = address - old.address;
      }
      if (old_end > end) {
        segments_[end] = old;
        segments_[end].address = end;
        segments_[end].size_bytes = old_end - end;
      }
    }
  }

  // Joins neighbouring mapped pieces into one run.
  void join_runs() {
    for (auto run = segments_.begin(); run != segments_.end();) {
      const auto next = std::next(run);
      const bool touches = next != segments_.end() && run->second.is_expandable &&
                           next->second.is_expandable &&
                           run->first + run->second.size_bytes == next->first;
      if (!touches) {
        run = next;
        continue;
      }
      run->second.size_bytes += next->second.size_bytes;
      segments_.erase(next);
    }
  }

  HistoryStart assemble() {
    join_runs();
    HistoryStart start;
    auto block = live_.begin();
    for (const auto& [address, segment] : segments_) {
      StartSegment placed{segment, {}};
      const std::uint64_t end = address + segment.size_bytes;
      while (block != live_.end() && block->first < address) ++block;  // in no known segment
      for (; block != live_.end() && block->first < end; ++block)
        placed.blocks.push_back(block->second);
      settle_sizes(placed);
      start.segments.push_back(std::move(placed));
    }
    return start;
  }

  // Only large blocks of plain segments can be larger than their rounded request, and by at most 1
  // MiB: a larger remainder is split off, and no block of the large pool is ever that small.
  void settle_sizes(StartSegment& segment) const {
    const std::uint64_t segment_end = segment.state.address + segment.state.size_bytes;
    for (std::size_t index = 0; index < segment.blocks.size(); ++index) {
      StartBlock& block = segment.blocks[index];
      if (block.is_size_certain) continue;
      const bool is_last = index + 1 == segment.blocks.size();
      const std::uint64_t limit = is_last ? segment_end : segment.blocks[index + 1].address;
      const std::uint64_t room = limit - block.address;
      const std::uint64_t rounded = std::min(settings_.round_size(block.requested_bytes), room);
      const bool is_exact_fit =
          rounded <= kSmallPoolMaxBytes || segment.state.is_expandable || rounded == room;
      const bool is_unsplittable = rounded >= settings_.max_split_bytes;
      const bool takes_rest =
          !is_exact_fit && (is_unsplittable || room - rounded <= kSmallPoolMaxBytes);
      block.size_bytes = takes_rest ? room : rounded;
      block.is_size_certain = is_exact_fit || takes_rest;
    }
  }

  const DeviceRecord& record_;
  const AllocatorSettings& settings_;
  std::map<std::uint64_t, SegmentState> segments_;
  std::map<std::uint64_t, StartBlock> live_;
};

}  // namespace

bool HistoryStart::correct_size(std::uint64_t address, std::uint64_t size_bytes) {
  const auto above = std::upper_bound(segments.begin(), segments.end(), address,
                                      [](std::uint64_t wanted, const StartSegment& segment) {
                                        return wanted < segment.state.address;
                                      });
  if (above == segments.begin()) return false;
  std::vector<StartBlock>& blocks = std::prev(above)->blocks;
  const auto block = std::lower_bound(
      blocks.begin(), blocks.end(), address,
      [](const StartBlock& known, std::uint64_t wanted) { return known.address < wanted; });
  if (block == blocks.end() || block->address != address || block->is_size_certain) return false;
  block->size_bytes = size_bytes;
  block->is_size_certain = true;
  return true;
}

HistoryStart listed_history_start(const ListedState& listed) {
  HistoryStart start;
  for (std::size_t index = 0; index < listed.segments.size(); ++index) {
    StartSegment placed{listed.segments[index], {}};
    for (const BlockState& block : listed.blocks_of(index)) {
      if (block.state == BlockStateKind::inactive) continue;
      placed.blocks.push_back({block.address, block.size_bytes, block.requested_bytes,
                               placed.state.stream, block.stack,
                               block.state == BlockStateKind::active_pending_free, true});
    }
    start.segments.push_back(std::move(placed));
  }
  return start;
}

HistoryStart find_history_start(const DeviceRecord& record, const AllocatorSettings& settings) {
  return Rewinder(record, settings).run();
}

}  // namespace gpumemprof
