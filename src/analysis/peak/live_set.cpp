#include "analysis/peak/live_set.h"

#include <algorithm>
#include <unordered_map>

#include "analysis/code/user_frame.h"
#include "analysis/code/whence.h"
#include "analysis/tags/tags.h"

namespace gpumemprof {
namespace {

void add_once(std::vector<StringId>& tags, StringId tag) {
  if (!tag.is_none() && std::find(tags.begin(), tags.end(), tag) == tags.end()) tags.push_back(tag);
}

class Grouping {
 public:
  explicit Grouping(std::size_t stacks) : group_of_stack_(2 * (stacks + 1), kNone) {}

  void add(Whence whence, std::uint64_t bytes, std::uint64_t requested_bytes, StringId tag) {
    const std::size_t row = whence.stack.is_none() ? 0 : whence.stack.index + std::size_t{1};
    std::uint32_t& group = group_of_stack_[2 * row + (whence.is_backward ? 1 : 0)];
    if (group == kNone) {
      group = static_cast<std::uint32_t>(live_.groups.size());
      live_.groups.push_back({whence.stack, whence.is_backward, 0, 0, 0, {}});
    }
    LiveGroup& sum = live_.groups[group];
    sum.bytes += bytes;
    ++sum.blocks;
    sum.requested_bytes += requested_bytes;
    add_once(sum.tags, tag);
    live_.allocated_bytes += bytes;
    ++live_.blocks;
  }

  LiveSet finish() {
    std::stable_sort(live_.groups.begin(), live_.groups.end(),
                     [](const LiveGroup& a, const LiveGroup& b) { return a.bytes > b.bytes; });
    return std::move(live_);
  }

 private:
  static constexpr std::uint32_t kNone = StackId::kNone;
  std::vector<std::uint32_t> group_of_stack_;
  LiveSet live_;
};

std::size_t stack_bound(const Column<StackId>& stacks) {
  std::size_t bound = 0;
  for (const StackId stack : stacks) {
    if (!stack.is_none()) bound = std::max<std::size_t>(bound, std::size_t{stack.index} + 1);
  }
  return bound;
}

std::uint64_t bytes_of(const LivePlace& place) { return place.bytes; }
std::uint64_t bytes_of(const LiveLine& line) { return line.line.bytes; }

void add_to(LivePlace& place, const LiveGroup& group) {
  place.bytes += group.bytes;
  place.blocks += group.blocks;
}

}  // namespace

LiveSet live_at(const DeviceRecord& record, Moment moment) {
  const AllocationColumns& allocations = record.allocations;
  Grouping grouping(
      std::max(stack_bound(allocations.stack), stack_bound(record.events.forward_stack)));
  for (std::size_t row = 0; row < allocations.size(); ++row) {
    if (!allocations.is_allocated_at(row, moment)) continue;
    grouping.add(whence(record, row), allocations.size_bytes[row], allocations.requested_bytes[row],
                 tag_of(record, row));
  }
  return grouping.finish();
}

std::vector<LiveLine> live_by_user_line(const LiveSet& live, const Store& store) {
  std::unordered_map<std::uint64_t, std::size_t> line_of_frame;
  std::vector<LiveLine> lines;
  for (const LiveGroup& group : live.groups) {
    const StackId part = line_part(store, group.stack);
    const FrameId user = part.is_none() ? FrameId() : store.stacks().frame(part);
    // Below a line of C++ there is nothing but the allocator.
    const bool is_in_python = !part.is_none() && is_python(store, user);
    const FrameId innermost =
        is_in_python ? store.stacks().frame(python_part(store, group.stack)) : user;
    const std::uint64_t key = std::uint64_t{user.index} << 1U | (group.is_backward ? 1 : 0);
    const auto [known, is_new] = line_of_frame.try_emplace(key, lines.size());
    if (is_new) lines.push_back({{user, group.is_backward, 0, 0}, {}, {}});
    LiveLine& line = lines[known->second];
    add_to(line.line, group);
    for (const StringId tag : group.tags) add_once(line.tags, tag);
    auto place =
        std::find_if(line.places.begin(), line.places.end(),
                     [&](const LivePlace& candidate) { return candidate.frame == innermost; });
    if (place == line.places.end())
      place = line.places.insert(place, {innermost, group.is_backward, 0, 0});
    add_to(*place, group);
  }
  const auto more_bytes = [](const auto& a, const auto& b) { return bytes_of(a) > bytes_of(b); };
  for (LiveLine& line : lines) std::stable_sort(line.places.begin(), line.places.end(), more_bytes);
  std::stable_sort(lines.begin(), lines.end(), more_bytes);
  return lines;
}

}  // namespace gpumemprof
