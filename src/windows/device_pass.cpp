#include "windows/device_pass.h"

#include <algorithm>

#include "event/rules/plausible.h"

namespace gpumemprof {
namespace {

template <typename T>
void insert_in_order(std::vector<T>& said, const T& one) {
  // A recorder writes them in order; a damaged file may not.
  const auto place = std::upper_bound(said.begin(), said.end(), one, [](const T& a, const T& b) {
    return a.before_event < b.before_event;
  });
  said.insert(place, one);
}

}  // namespace

DevicePass::DevicePass(DeviceIndex device, const Store& store, WindowSizes sizes,
                       WindowVisitor& visitor, std::optional<bool> starts_expandable)
    : store_(store),
      sizes_(sizes),
      visitor_(visitor),
      starts_expandable_(starts_expandable),
      run_(device) {}

void DevicePass::add_start(const SegmentState& segment, std::span<const BlockState> blocks) {
  ListedState& start = run_.record().start_state;
  start.segments.push_back(segment);
  start.segments.back().size_bytes = plausible_size(segment.size_bytes);
  for (BlockState block : blocks) {
    block.size_bytes = plausible_size(block.size_bytes);
    block.requested_bytes = plausible_size(block.requested_bytes);
    start.blocks.push_back(block);
  }
  start.first_block.push_back(static_cast<std::uint32_t>(start.blocks.size()));
}

void DevicePass::begin() {
  if (player_ || poolless_) return;
  if (!store_.facts().has_pool()) {
    poolless_ = std::make_unique<PoollessPlayer>(run_.record());
    poolless_->begin_with(run_.record().start_state);
    return;
  }
  player_ = std::make_unique<Player>(run_.record(), store_.settings(), Player::Mode::tolerant);
  if (starts_expandable_) player_->start_expandable(*starts_expandable_);
  fits_ = player_->begin_with(listed_history_start(run_.record().start_state));
}

void DevicePass::note_first_segment(const EventColumns& events) {
  for (const Action action : events.action) {
    if (action != Action::segment_map && action != Action::segment_alloc) continue;
    first_segment_ = action == Action::segment_map;
    return;
  }
}

void DevicePass::add(const EventColumns& events) {
  begin();
  if (!first_segment_) note_first_segment(events);
  const std::uint32_t first = run_.events();
  run_.append(events);
  if (player_) player_->play(events, first);
  if (poolless_) poolless_->play(events, first, 0, events.size());
}

void DevicePass::add(const Labelling& labelling) {
  insert_in_order(run_.record().labellings, labelling);
}

void DevicePass::add(const PhaseMark& mark) {
  insert_in_order(run_.record().phase_marks, mark);
  if (mark.kind == PhaseMark::Kind::optimizer_start) return;
  if (mark.before_event > last_mark_)
    longest_step_ = std::max(longest_step_, mark.before_event - last_mark_);
  last_mark_ = std::max(last_mark_, mark.before_event);
}

// Whole steps, so that the analyses see what became of what the last one leaves.
std::uint32_t DevicePass::look() const {
  constexpr std::uint32_t kFarthest = 2'000'000;
  return std::max(sizes_.least_look(), std::min(2 * longest_step_, kFarthest));
}

void DevicePass::complete(std::uint32_t before_event) {
  complete_ = std::max(complete_, before_event);
  while (complete_ - next_ > sizes_.events && complete_ - next_ - sizes_.events > look()) {
    const std::uint32_t end = cut_after(next_ + sizes_.events, complete_ - look());
    show({next_, end, false});
  }
}

// The first beginning of a step behind the target, if there is one soon.
std::uint32_t DevicePass::cut_after(std::uint32_t target, std::uint32_t last) const {
  const DeviceRecord& record = run_.record();
  const std::uint32_t bound = std::min(last, target + sizes_.events / 4);
  for (const PhaseMark& mark : record.phase_marks) {
    if (mark.before_event < target || mark.kind == PhaseMark::Kind::optimizer_start) continue;
    std::uint32_t event = mark.before_event;
    if (mark.kind == PhaseMark::Kind::optimizer_end) {
      while (event < bound && record.events.action[run_.place_of(event)] != Action::alloc) ++event;
    }
    return event < bound ? event : target;
  }
  return target;
}

void DevicePass::show(const Window& window) {
  begin();
  visitor_.visit(run_, window);
  next_ = window.end;
  if (window.is_last) return;
  const std::uint32_t behind = window.end - std::min(window.end, look());
  // A step without end must not keep everything.
  const std::uint32_t farthest = window.end - std::min(window.end, 2 * sizes_.events + look());
  const std::uint32_t begin = std::max(std::min(behind, visitor_.needed_from()), farthest);
  run_.condense(sizes_.head(), begin, visitor_.always_kept(),
                [&](const std::vector<std::uint32_t>& kept) {
                  if (player_) player_->keep_rows(kept);
                  if (poolless_) poolless_->keep_rows(kept);
                });
}

void DevicePass::finish() {
  begin();
  complete(run_.events());
  show({next_, run_.events(), true});
}

DeviceReplay DevicePass::replay() const {
  DeviceReplay result;
  const bool is_whole = !loses_state(run_.record());
  if (poolless_) {
    result = poolless_->result();
    result.end.totals = poolless_->now();
    if (is_whole && result.contradictions == 0) result.exact_from_event = 0;
  } else {
    result = player_->summary();
    if (fits_ && is_whole && player_->contradictions() == 0) result.exact_from_event = 0;
  }
  result.has_history = true;
  result.has_end = true;
  return result;
}

}  // namespace gpumemprof
