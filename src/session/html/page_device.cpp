#include "session/html/page_device.h"

#include <algorithm>

namespace gpumemprof {
namespace {

constexpr std::size_t kMostKeyMoments = 6;
constexpr std::size_t kMostCloseUps = 8;          // the fullest moments of parts of the run
constexpr std::size_t kMostLongMoments = 16;      // each may be in another stretch
constexpr std::uint32_t kListedAround = 100'000;  // events on each side of a long run's peak

}  // namespace

std::set<Position> PageDevice::key_moments() const {
  std::set<Position> moments = {birth_position(view_.replay(name_).peak_event), last_position()};
  if (is_long()) {
    for (const OomReport& oom : view_.indexed(name_)->overview().ooms)
      moments.insert(position_after(oom.event));
    return moments;
  }
  const Column<Action>& actions = view_.whole(name_)->record().events.action;
  for (std::uint32_t event = 0; event < actions.size() && moments.size() < kMostKeyMoments;
       ++event) {
    if (actions[event] == Action::oom) moments.insert(position_after(event));
  }
  return moments;
}

std::vector<TileAddress> PageDevice::close_up_tiles(std::uint32_t level) const {
  std::set<std::pair<Axis, std::uint32_t>> found;
  const auto tiles = static_cast<long double>(std::uint64_t{1} << level);
  const auto add = [&](Axis axis, long double share) {
    found.emplace(axis, static_cast<std::uint32_t>(std::min(share, 1.0L - 1e-12L) * tiles));
  };
  std::set<Position> moments = key_moments();
  // Of a long run each of these would be another opening of the recording.
  if (!is_long()) moments.merge(spread_moments(kMostCloseUps));
  for (const Position position : moments) {
    add(Axis::event,
        static_cast<long double>(position) / static_cast<long double>(scale().positions));
    const Result<view::MomentFacts> facts = view_.facts(name_, position);
    if (!facts || facts.value().since_first_ns == kUnknownTime) continue;
    add(Axis::time, static_cast<long double>(facts.value().since_first_ns) /
                        (static_cast<long double>(scale().last_ns - scale().first_ns) + 1));
  }
  std::vector<TileAddress> tiles_found;
  tiles_found.reserve(found.size());
  for (const auto& [axis, index] : found) tiles_found.push_back({axis, level, index});
  return tiles_found;
}

std::set<Position> PageDevice::spread_moments(std::size_t count) const {
  std::set<Position> moments;
  if (is_long()) {
    count = std::min(count, kMostLongMoments);
    const Tile tile = view_.indexed(name_)->timeline().tile({Axis::event, 0, 0}).tile;
    const std::size_t buckets = tile.max_bytes.size();
    for (std::size_t part = 0; part < count; ++part) {
      const auto from =
          tile.max_bytes.begin() + static_cast<std::ptrdiff_t>(part * buckets / count);
      const auto to =
          tile.max_bytes.begin() + static_cast<std::ptrdiff_t>((part + 1) * buckets / count);
      if (from == to) continue;
      const auto most = std::max_element(from, to) - tile.max_bytes.begin();
      moments.insert(tile.max_position[static_cast<std::size_t>(most)]);
    }
    return moments;
  }
  const LiveChanges& allocated = view_.whole(name_)->timeline().allocated();
  const std::uint64_t positions = scale().positions;
  for (std::uint64_t part = 0; part < count; ++part) {
    const auto from = static_cast<Position>(part * positions / count);
    const auto to = static_cast<Position>((part + 1) * positions / count);
    if (from < to) moments.insert(allocated.range(from, to).max_position);
  }
  return moments;
}

Result<std::vector<view::MomentFacts>> PageDevice::fullest_moments(std::uint32_t level) const {
  std::vector<view::MomentFacts> moments;
  for (std::uint32_t index = 0; index < (1U << level); ++index) {
    const TileAddress address{Axis::event, level, index};
    if (is_long()) {
      const PyramidTimeline& timeline = view_.indexed(name_)->timeline();
      const Tile tile = timeline.tile(address).tile;
      for (std::size_t bucket = 0; bucket < tile.max_bytes.size(); ++bucket) {
        const Position position = tile.max_position[bucket];
        view::MomentFacts& facts = moments.emplace_back();
        facts.position = position;
        facts.allocated_bytes = tile.max_bytes[bucket];
        if (scale().has_times() && position > 0)
          facts.since_first_ns = timeline.about_when(position - 1) - scale().first_ns;
      }
      continue;
    }
    const DeviceView& view = *view_.whole(name_);
    const Result<Tile> tile = view.timeline().tile(address, view.grouped(GroupBy::size).sums);
    if (!tile) return tile.error();
    for (const Position position : tile.value().max_position) {
      const Result<view::MomentFacts> facts = view_.facts(name_, position);
      if (!facts) return facts.error();
      moments.push_back(facts.value());
    }
  }
  return moments;
}

Result<PageDevice::Listed> PageDevice::listed() const {
  if (!is_long()) {
    const DeviceView* view = view_.whole(name_);
    return Listed{{view, nullptr}, 0, last_position() + 1, view->record().allocations.size()};
  }
  const Position peak = birth_position(view_.replay(name_).peak_event);
  const Position from = peak - std::min(peak, kListedAround);
  const Position to = peak + std::min(last_position() - peak, kListedAround) + 1;
  const Result<StretchPtr> stretch = view_.indexed(name_)->over(from, to);
  if (!stretch) return stretch.error();
  return Listed{{&stretch.value()->view(), stretch.value()},
                stretch.value()->local(from),
                stretch.value()->local(to),
                stretch.value()->view().record().allocations.size()};
}

}  // namespace gpumemprof
