#include "replay/replay.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "event/foreign/foreign_file.h"
#include "replay/history_start.h"
#include "replay/left_out.h"
#include "replay/player.h"
#include "replay/poolless.h"

namespace gpumemprof {
namespace {

EndState end_of(const ListedState& final_state) {
  EndState end;
  for (std::size_t index = 0; index < final_state.segments.size(); ++index) {
    const SegmentState& segment = final_state.segments[index];
    const auto blocks = final_state.blocks_of(index);
    ++(segment.is_expandable ? end.mapped_runs : end.segments);
    end.totals.reserved_bytes += segment.size_bytes;
    for (const BlockState& block : blocks) {
      if (block.state == BlockStateKind::inactive) {
        if (blocks.size() > 1 && !segment.is_expandable)
          end.inactive_split_bytes += block.size_bytes;
        continue;
      }
      end.totals.active_bytes += block.size_bytes;
      end.totals.requested_bytes += block.requested_bytes;
      if (block.state == BlockStateKind::active_allocated)
        end.totals.allocated_bytes += block.size_bytes;
    }
  }
  return end;
}

// Traces before torch 2.12 do not name the pool a segment belongs to; the list at the end does, for
// segments that still exist then.
void take_pools_from_end(DeviceRecord& record) {
  std::map<std::uint64_t, const SegmentState*> listed;
  for (const SegmentState& segment : record.final_state.segments)
    listed[segment.address] = &segment;
  for (std::size_t row = 0; row < record.segments.size(); ++row) {
    const std::uint64_t address = record.segments.address[row];
    const auto above = listed.upper_bound(address);
    if (record.segments.death_event[row] != kNoEvent || above == listed.begin()) continue;
    const SegmentState& segment = *std::prev(above)->second;
    if (address - segment.address >= segment.size_bytes) continue;
    record.segments.pool[row] = segment.pool;
    record.segments.is_small[row] = segment.is_small ? 1 : 0;
  }
}

// Everything listed at the end was there all along: the only possible history of a recording
// without events.
DeviceReplay end_only(DeviceRecord& record, const AllocatorSettings& settings, bool has_segments) {
  Player player(record, settings, Player::Mode::tolerant);
  player.begin_with(listed_history_start(record.final_state));
  DeviceReplay result = player.summary();
  result.end = end_of(record.final_state);
  result.has_history = false;
  result.has_end = has_segments;
  if (has_segments) result.exact_from_event = 0;
  return result;
}

// Plays from the start derived from the segments; sizes that events prove wrong are corrected and
// the play is repeated.
DeviceReplay play_late_history(DeviceRecord& record, const AllocatorSettings& settings,
                               bool has_end) {
  // What one pass proves lets the next prove more, but rarely more than once.
  constexpr int kMostPlays = 8;
  HistoryStart start = find_history_start(record, settings);
  for (int plays = 1;; ++plays) {
    Player player(record, settings, Player::Mode::tolerant);
    const bool fits = player.begin_with(start);
    player.play();
    bool improved = false;
    for (const auto& [address, size_bytes] : player.corrections()) {
      improved |= start.correct_size(address, size_bytes);
    }
    if (improved && plays < kMostPlays) continue;
    DeviceReplay result = player.summary();
    const bool matches = has_end && player.end_matches(record.final_state);
    if (fits && matches && player.exact_from() != kNoEvent)
      result.exact_from_event = player.exact_from();
    return result;
  }
}

// A live recording: the start is listed, everything after it is in the events. Lost events show as
// gaps, and figures after a gap are exact again only once nothing live then could have been lost,
// which cannot be known.
DeviceReplay play_from_listed_start(DeviceRecord& record, const AllocatorSettings& settings) {
  Player player(record, settings, Player::Mode::tolerant);
  const bool fits = player.begin_with(listed_history_start(record.start_state));
  player.play();
  DeviceReplay result = player.summary();
  result.has_end = true;
  if (fits && !loses_state(record) && player.contradictions() == 0) result.exact_from_event = 0;
  return result;
}

// Events that lead over a gap between chapters, or to the beginning of an excerpt, are nothing that
// the program did.
void leave_out_bridges(const DeviceRecord& record, EventCounters& counters) {
  std::vector<LostEvents> bridges = record.lost_events;
  LostEvents& lead_in = bridges.emplace_back();
  lead_in.end_event = record.lead_in;
  lead_in.is_of_chapters = true;
  for (const LostEvents& lost : bridges) {
    const std::size_t end = std::min<std::size_t>(lost.end_event, record.events.size());
    for (std::size_t row = lost.before_event; lost.is_of_chapters && row < end; ++row)
      leave_out(record.events.action[row], 1, counters);
  }
}

DeviceReplay replay_any(DeviceRecord& record, const AllocatorSettings& settings,
                        const Origin& origin) {
  if (!has_pool(origin)) {
    DeviceReplay result = replay_poolless(record);
    // Another tool's file may show one moment only.
    if (origin.kind == kProfileOfJax) result.has_history = false;
    return result;
  }
  const bool has_end = origin.has_segments && !origin.cut;
  if (!origin.has_start && (record.events.empty() || record.device == kHostDevice))
    return end_only(record, settings, origin.has_segments);

  DeviceReplay result;
  if (origin.has_start) {
    result = play_from_listed_start(record, settings);
    result.has_history = true;
    record.allocations.shrink_to_fit();
    return result;
  }
  Player whole(record, settings, Player::Mode::strict);
  // Most histories begin with the process: played from nothing, they end in the listed segments.
  if (whole.play() && (!has_end || whole.end_matches(record.final_state))) {
    result = whole.summary();
    if (has_end) result.exact_from_event = 0;
  } else {
    result = play_late_history(record, settings, has_end);
  }
  result.has_history = true;
  result.has_end = has_end;
  if (has_end) {
    result.end = end_of(record.final_state);
    take_pools_from_end(record);
  }
  record.allocations.shrink_to_fit();
  return result;
}

}  // namespace

DeviceReplay replay_device(DeviceRecord& record, const AllocatorSettings& settings,
                           const Origin& origin) {
  DeviceReplay result = replay_any(record, settings, origin);
  // In a contradictory recording some of them were not played.
  if (result.contradictions == 0) leave_out_bridges(record, result.counters);
  return result;
}

}  // namespace gpumemprof
