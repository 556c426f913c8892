#include "trace/chapters/chapter_block.h"

#include <algorithm>

#include "trace/content/device.h"

namespace gpumemprof::trace {
namespace {

constexpr std::size_t kLivePerBlock = std::size_t{1} << 16;
constexpr std::uint8_t kIsExactStart = 1;
constexpr std::uint8_t kMoreFollows = 2;  // more live allocations follow in the next block

std::uint64_t row_plus_one(std::uint32_t row) {
  return row == StackId::kNone ? 0 : std::uint64_t{row} + 1;
}

template <typename T>
T known_row(InBytes& in, const std::vector<T>& known) {
  const std::uint64_t row = in.below(known.size() + 1);
  return row == 0 ? T() : known[row - 1];
}

// Unsigned, so that no number from a forged file overflows.
std::int64_t step(std::int64_t from, std::int64_t by) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(from) +
                                   static_cast<std::uint64_t>(by));
}

}  // namespace

std::size_t encode_chapter(OutBytes& out, const ChapterStart& start, std::size_t first) {
  const std::size_t end = std::min(start.live.size(), first + kLivePerBlock);
  out.varint(start.number);
  out.byte(static_cast<std::uint8_t>((start.is_exact ? kIsExactStart : 0) |
                                     (end < start.live.size() ? kMoreFollows : 0)));
  out.varint(start.repeated_sets);
  out.varint(start.devices.size());
  for (const ChapterDevice& device : start.devices) {
    out.signed_varint(device.device);
    out.varint(device.made.allocations);
    out.varint(device.made.frees);
    out.varint(device.made.others);
    out.varint(device.rows);
    out.signed_varint(device.last_time_ns);
  }
  out.varint(end - first);
  std::uint64_t last_address = 0;
  std::int64_t last_time = 0;
  for (std::size_t row = first; row < end; ++row) {
    const LiveAllocation& live = start.live[row];
    out.signed_varint(live.device);
    out.signed_varint(static_cast<std::int64_t>(live.address - last_address));
    out.signed_varint(static_cast<std::int64_t>(static_cast<std::uint64_t>(live.time_ns) -
                                                static_cast<std::uint64_t>(last_time)));
    out.varint(live.stream);
    out.varint(row_plus_one(live.forward_stack.index));
    out.varint(row_plus_one(live.user_metadata.index));
    out.varint(live.module == kNoModule ? 0 : std::uint64_t{live.module} + 1);
    last_address = live.address;
    last_time = live.time_ns;
  }
  return end;
}

bool ChapterDecoder::decode(InBytes in, const DefinitionMap& definitions) {
  if (is_whole_) return false;
  start_.number = static_cast<std::uint32_t>(in.below(std::uint64_t{1} << 32));
  const std::uint8_t flags = in.byte();
  if (flags > (kIsExactStart | kMoreFollows)) in.fail();
  start_.is_exact = (flags & kIsExactStart) != 0;
  start_.repeated_sets = static_cast<std::uint32_t>(in.below(std::uint64_t{1} << 32));
  start_.devices.clear();
  for (std::size_t count = in.count(); count > 0 && in.ok(); --count) {
    ChapterDevice device;
    device.device = take_device(in);
    device.made = {in.varint(), in.varint(), in.varint()};
    device.rows = in.varint();
    device.last_time_ns = in.signed_varint();
    start_.devices.push_back(device);
  }
  std::uint64_t address = 0;
  std::int64_t time_ns = 0;
  for (std::size_t count = in.count(); count > 0 && in.ok(); --count) {
    LiveAllocation live;
    live.device = take_device(in);
    live.address = address += static_cast<std::uint64_t>(in.signed_varint());
    live.time_ns = time_ns = step(time_ns, in.signed_varint());
    const std::uint64_t stream = in.below(definitions.streams().size());
    live.forward_stack = known_row(in, definitions.stacks());
    live.user_metadata = known_row(in, definitions.strings());
    const std::uint64_t module = in.below(std::uint64_t{kMaxModules} + 1);
    if (module > 0) live.module = static_cast<std::uint32_t>(module - 1);
    if (!in.ok()) break;
    live.stream = definitions.streams()[stream];
    start_.live.push_back(live);
  }
  is_whole_ = (flags & kMoreFollows) == 0;
  return in.is_spent();
}

}  // namespace gpumemprof::trace
