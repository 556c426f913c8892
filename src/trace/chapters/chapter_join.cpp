#include "trace/chapters/chapter_join.h"

#include <algorithm>
#include <limits>

#include "event/facts.h"
#include "trace/reader.h"

namespace gpumemprof {
namespace {

// What add_label_set() returns for a set that earlier chapters hold.
constexpr std::uint32_t kRepeatedSet = std::numeric_limits<std::uint32_t>::max();

const ChapterDevice* find_device(const ChapterStart& start, DeviceIndex index) {
  const auto found = std::ranges::find(start.devices, index, &ChapterDevice::device);
  return found == start.devices.end() ? nullptr : &*found;
}

std::uint64_t difference(std::uint64_t more, std::uint64_t less) {
  return more > less ? more - less : 0;
}

}  // namespace

void ChapterJoin::begin(std::uint32_t number) {
  number_ = number;
  is_resolved_ = number == 1;
  if (is_resolved_ || is_first_) known_from_ = number;
  drops_repeated_ = false;
  sets_ = 0;
  start_ = ChapterStart();
  start_.number = number;
  listed_.clear();
  for (auto& [index, device] : devices_) {
    device.base = device.rows;
    device.seen = EventCounts();
  }
}

void ChapterJoin::end(const std::optional<Ending>& ending, bool is_cut) {
  // A chapter that was cut off before its start tells nothing.
  if (!is_resolved_) {
    was_whole_ = false;
    return;
  }
  has_counts_ &= ending && ending->has_counts;
  are_counts_exact_ &= ending && ending->are_counts_exact;
  for (auto& [index, device] : devices_) {
    const ChapterDevice* before = find_device(start_, index);
    device.made = before == nullptr ? EventCounts() : before->made;
    EventCounts made = device.seen;
    if (ending && ending->has_counts) {
      made = EventCounts();
      for (const DeviceCounts& counts : ending->devices) {
        if (counts.device != index) continue;
        made = counts.made;
        device.lost += counts.lost;
        device.inferred_frees += counts.inferred_frees;
      }
    }
    device.made += made;
  }
  was_whole_ = ending && !is_cut && ending->is_closed;
  previous_ = number_;
  is_first_ = false;
}

void ChapterJoin::finish(std::vector<ChapterFigures> chapters, std::vector<StepSummary> steps,
                         std::optional<CutPoint> cut) {
  Ending ending = origin_.ending.value_or(Ending());
  if (ending.reason == kContinued) {
    ending.is_closed = false;
    ending.reason.clear();
  }
  ending.has_counts &= has_counts_ && ending.is_closed;
  ending.are_counts_exact &= are_counts_exact_;
  ending.devices.clear();
  for (const auto& [index, device] : devices_) {
    if (device.made.total() > 0)
      ending.devices.push_back({index, device.made, device.lost, device.inferred_frees});
  }
  std::erase_if(origin_.facts, [](const auto& fact) { return fact.first == kEndedFact; });
  origin_.facts.emplace_back(kEndedFact,
                             ending.is_closed ? ending.reason : std::string(kNotClosed));
  origin_.ending = std::move(ending);
  origin_.cut = std::move(cut);
  origin_.has_start = has_start_;
  origin_.chapters = std::move(chapters);
  origin_.steps = std::move(steps);
  to_.set_origin(origin_);
}

void ChapterJoin::set_origin(const Origin& origin) {
  origin_ = origin;
  has_pool_ = has_pool(device_kind(origin));
  Origin passed = origin;
  passed.ending.reset();  // that of a chapter is not that of the run
  passed.cut.reset();
  if (number_ == 1) has_start_ = origin.has_start;
  passed.has_start = has_start_;
  to_.set_origin(passed);
}

void ChapterJoin::add_segment(StateEdge edge, const SegmentState& segment,
                              std::span<const BlockState> blocks) {
  // What torch's own recorder saw is one chapter, which lists the state at its end.
  if (edge != StateEdge::start) {
    if (number_ == 1) to_.add_segment(edge, segment, blocks);
    return;
  }
  if (number_ != 1) {
    listed_.push_back({segment, {blocks.begin(), blocks.end()}});
    return;
  }
  to_.add_segment(edge, segment, blocks);
  Device& device = devices_[segment.device];
  take_reserved(device, segment);
  for (const BlockState& block : blocks) {
    if (block.state != BlockStateKind::inactive) take_live(device, {&segment, &block, nullptr});
  }
}

void ChapterJoin::add_chapter_start(const ChapterStart& start) {
  if (is_resolved_) return;
  resolve(start);
}

void ChapterJoin::resolve(const ChapterStart& start) {
  start_ = start;
  start_.number = number_;  // the name of the file decides
  is_resolved_ = true;
  for (const ListedSegment& listed : listed_) devices_[listed.segment.device];
  for (const ChapterDevice& device : start.devices) devices_[device.device];
  const bool is_following = !is_first_ && was_whole_ && previous_ + 1 == number_;
  drops_repeated_ = is_following;
  bool is_known = true;
  for (auto& [index, device] : devices_) is_known &= bridge(index, start_, is_following);
  if (is_known) known_from_ = number_;
  for (const ListedSegment& one : listed_) {
    if (is_first_) to_.add_segment(StateEdge::start, one.segment, one.blocks);
  }
  for (auto& [index, device] : devices_) device.base = device.rows;
  listed_.clear();
  start_.live.clear();
}

ChapterJoin::ListedBlocks ChapterJoin::listed_of(DeviceIndex index,
                                                 const ChapterStart& start) const {
  ListedBlocks found;
  for (const ListedSegment& listed : listed_) {
    if (listed.segment.device != index) continue;
    for (const BlockState& block : listed.blocks) {
      if (block.state != BlockStateKind::inactive)
        found.insert_or_assign(block.address, Listed{&listed.segment, &block, nullptr});
    }
  }
  for (const LiveAllocation& live : start.live) {
    const auto at = live.device == index ? found.find(live.address) : found.end();
    if (at != found.end()) at->second.live = &live;
  }
  return found;
}

bool ChapterJoin::is_same(const Device& device, const ListedBlocks& listed) {
  return device.live.size() == listed.size() && std::ranges::all_of(listed, [&](const auto& one) {
           const Live* known = device.live.find(one.first);
           return known != nullptr && known->requested_bytes == one.second.block->requested_bytes;
         });
}

// Also in what tells an allocation from a later one at the same place.
bool ChapterJoin::is_same_in_all(const Device& device, const ListedBlocks& listed) {
  return is_same(device, listed) && std::ranges::all_of(listed, [&](const auto& one) {
           const Live* known = device.live.find(one.first);
           const Listed& here = one.second;
           const bool is_pending = here.block->state == BlockStateKind::active_pending_free;
           return known->time_ns == (here.live == nullptr ? kUnknownTime : here.live->time_ns) &&
                  known->is_pending == is_pending;
         });
}

void ChapterJoin::take_live(Device& device, const Listed& one) {
  if (one.block->address == FlatMap<Live>::kEmpty) return;
  Live live;
  live.requested_bytes = one.block->requested_bytes;
  live.stream = one.live == nullptr ? one.segment->stream : one.live->stream;
  live.is_pending = one.block->state == BlockStateKind::active_pending_free;
  if (one.live != nullptr) live.time_ns = one.live->time_ns;
  device.live.insert_or_assign(one.block->address, live);
}

void ChapterJoin::take_reserved(Device& device, const SegmentState& segment) const {
  if (!has_pool_) return;
  device.reserved[segment.address] = {segment.size_bytes, segment.is_expandable, segment.stream,
                                      segment.pool, segment.stack};
}

void ChapterJoin::take_listed(Device& device, DeviceIndex index, const ListedBlocks& listed) {
  device.live.clear();
  for (const auto& [address, one] : listed) take_live(device, one);
  device.reserved.clear();
  for (const ListedSegment& one : listed_) {
    if (one.segment.device == index) take_reserved(device, one.segment);
  }
}

bool ChapterJoin::bridge(DeviceIndex index, const ChapterStart& start, bool is_following) {
  Device& device = devices_[index];
  const ListedBlocks listed = listed_of(index, start);
  const ChapterDevice* before = find_device(start, index);
  if (is_following && (!start.is_exact || is_same(device, listed)))
    return start.is_exact && is_same_in_all(device, listed);
  LostEvents lost;
  lost.device = index;
  lost.before_event = static_cast<std::uint32_t>(device.rows);
  lost.first_time_ns = device.last_time_ns;
  lost.last_time_ns = before == nullptr ? device.last_time_ns : before->last_time_ns;
  lost.is_of_chapters = true;
  lost.is_bridged = start.is_exact;
  if (is_following) {
    lost.count = LostEvents::kUnknownCount;
  } else {
    const EventCounts made = before == nullptr ? EventCounts() : before->made;
    lost.allocations = difference(made.allocations, device.made.allocations);
    lost.frees = difference(made.frees, device.made.frees);
    lost.count = lost.allocations + lost.frees + difference(made.others, device.made.others);
  }
  if (before != nullptr) {
    device.made = before->made;
    device.last_time_ns = std::max(device.last_time_ns, before->last_time_ns);
  }
  if (is_first_) {
    take_listed(device, index, listed);
  } else {
    EventColumns events = bridging_events(device, index, listed, device.last_time_ns);
    device.rows += events.size();
    take_listed(device, index, listed);
    if (!events.empty()) to_.add_events(index, std::move(events));
  }
  lost.end_event = static_cast<std::uint32_t>(device.rows);
  if (lost.count > 0 || lost.end_event > lost.before_event) to_.add_lost_events(lost);
  return true;
}

std::uint64_t ChapterJoin::most_rows() const {
  std::uint64_t most = 0;
  for (const auto& [index, device] : devices_) most = std::max(most, device.rows);
  return most;
}

void ChapterJoin::unmap(Device& device, std::uint64_t address, std::uint64_t size_bytes) {
  const std::uint64_t end = address + size_bytes;
  auto piece = device.reserved.upper_bound(address);
  if (piece != device.reserved.begin()) --piece;
  std::vector<std::pair<std::uint64_t, Reserved>> kept;
  while (piece != device.reserved.end() && piece->first < end) {
    const std::uint64_t piece_end = piece->first + piece->second.size_bytes;
    if (piece_end <= address || !piece->second.is_expandable) {
      ++piece;
      continue;
    }
    Reserved rest = piece->second;
    if (piece->first < address) {
      rest.size_bytes = address - piece->first;
      kept.emplace_back(piece->first, rest);
    }
    if (piece_end > end) {
      rest.size_bytes = piece_end - end;
      kept.emplace_back(end, rest);
    }
    piece = device.reserved.erase(piece);
  }
  for (const auto& [begin, rest] : kept) device.reserved[begin] = rest;
}

// What is live, and reserved, after these events.
void ChapterJoin::follow(Device& device, const EventColumns& events) const {
  for (std::size_t row = 0; row < events.size(); ++row) {
    const std::uint64_t address = events.address[row];
    if (address == FlatMap<Live>::kEmpty) continue;
    switch (events.action[row]) {
      case Action::alloc:
        device.live.insert_or_assign(
            address, {events.size_bytes[row], events.time_ns[row], events.stream[row], false});
        break;
      case Action::free_requested:
        if (Live* live = device.live.find(address)) live->is_pending = true;
        break;
      case Action::free_completed:
        device.live.erase(address);
        break;
      case Action::segment_alloc:
      case Action::segment_map:
        device.reserved[address] = {
            events.size_bytes[row], events.action[row] == Action::segment_map, events.stream[row],
            events.pool.empty() ? kNoPool : events.pool[row], events.stack[row]};
        break;
      case Action::segment_free:
        device.reserved.erase(address);
        break;
      case Action::segment_unmap:
        unmap(device, address, events.size_bytes[row]);
        break;
      default:
        break;
    }
    device.seen.add(events.action[row]);
  }
}

void ChapterJoin::add_events(DeviceIndex index, EventColumns&& events) {
  if (!is_resolved_) resolve(start_);
  Device& device = devices_[index];
  follow(device, events);
  device.rows += events.size();
  if (!events.empty() && events.time_ns.back() != kUnknownTime)
    device.last_time_ns = std::max(device.last_time_ns, events.time_ns.back());
  to_.add_events(index, std::move(events));
}

std::uint32_t ChapterJoin::shifted(DeviceIndex index, std::uint32_t row) {
  constexpr std::uint64_t kLast = kNoEvent - 1;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(devices_[index].base + row, kLast));
}

void ChapterJoin::add_lost_events(const LostEvents& lost) {
  LostEvents mine = lost;
  mine.before_event = shifted(lost.device, lost.before_event);
  mine.end_event = shifted(lost.device, lost.end_event);
  to_.add_lost_events(mine);
}

void ChapterJoin::add_sample(const DeviceSample& sample) {
  DeviceSample mine = sample;
  if (sample.before_event != kNoEvent)
    mine.before_event = shifted(sample.device, sample.before_event);
  to_.add_sample(mine);
}

std::uint32_t ChapterJoin::add_label_set(std::span<const Label> labels) {
  if (sets_++ < start_.repeated_sets && drops_repeated_) return kRepeatedSet;
  return to_.add_label_set(labels);
}

void ChapterJoin::add_labelling(const Labelling& labelling) {
  if (labelling.set == kRepeatedSet) return;
  Labelling mine = labelling;
  mine.before_event = shifted(labelling.device, labelling.before_event);
  to_.add_labelling(mine);
}

void ChapterJoin::add_phase_mark(const PhaseMark& mark) {
  PhaseMark mine = mark;
  mine.before_event = shifted(mark.device, mark.before_event);
  to_.add_phase_mark(mine);
}

// Every chapter describes the modules that it refers to.
void ChapterJoin::add_module(const ModuleLabel& module) {
  if (module.number == kNoModule) {
    if (modules_without_number_.emplace(module, true).second) to_.add_module(module);
    return;
  }
  const auto [known, is_new] = modules_.emplace(module.number, module);
  if (!is_new && known->second == module) return;
  known->second = module;
  to_.add_module(module);
}

}  // namespace gpumemprof
