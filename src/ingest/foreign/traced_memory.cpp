#include "ingest/foreign/traced_memory.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <map>
#include <unordered_map>

#include "event/foreign/foreign_file.h"

namespace gpumemprof {
namespace {

constexpr std::int64_t kCpuType = 0;
constexpr std::int64_t kCudaType = 1;

std::string device_type_name(std::int64_t type) {
  constexpr std::int64_t kHip = 6;
  constexpr std::int64_t kXpu = 12;
  constexpr std::int64_t kMps = 13;
  switch (type) {
    case kCpuType:
      return "cpu";
    case kCudaType:
      return "cuda";
    case kHip:
      return "hip";
    case kXpu:
      return "xpu";
    case kMps:
      return "mps";
    default:
      return "device";
  }
}

std::int64_t main_device_type(const std::vector<TracedBlock>& blocks) {
  std::map<std::int64_t, std::uint64_t> counts;
  for (const TracedBlock& block : blocks) ++counts[block.device_type];
  const auto weight = [](const auto& entry) {
    return std::pair(entry.first != kCpuType, entry.second);
  };
  return std::ranges::max_element(counts, {}, weight)->first;
}

std::uint64_t size_of(const TracedBlock& block) {
  // The least number has no positive counterpart.
  return block.bytes < 0 ? ~static_cast<std::uint64_t>(block.bytes) + 1
                         : static_cast<std::uint64_t>(block.bytes);
}

// One device of the trace.
class TracedDevice {
 public:
  TracedDevice(DeviceIndex device, EventSink& sink) : device_(device), sink_(sink) {}

  void add(const TracedBlock& block) { blocks_.push_back(block); }

  void deliver() {
    // Threads write their events one after the other; time orders them.
    std::ranges::stable_sort(blocks_, {}, &TracedBlock::time_ns);
    find_start();
    EventColumns events;
    stream_ = sink_.add_stream(0);
    for (const TracedBlock& block : blocks_) add_event(block, events);
    sink_.add_events(device_, std::move(events));
  }

  [[nodiscard]] std::uint64_t disagreements() const { return disagreements_; }
  [[nodiscard]] std::uint64_t from_before_bytes() const { return from_before_bytes_; }
  [[nodiscard]] std::optional<std::uint64_t> peak_reserved_bytes() const { return reserved_; }
  [[nodiscard]] DeviceIndex device() const { return device_; }

 private:
  // What is freed without having been allocated was there before.
  void find_start() {
    std::unordered_map<std::uint64_t, std::uint64_t> live;
    std::uint64_t known = 0;
    for (const TracedBlock& block : blocks_) {
      if (block.bytes > 0) {
        live[block.address] = size_of(block);
      } else if (block.bytes < 0 && live.erase(block.address) == 0 &&
                 seen_before_.emplace(block.address, size_of(block)).second) {
        known = add_up(known, size_of(block));
      }
    }
    for (const auto& [address, size] : seen_before_) add_block(address, size);
    if (blocks_.empty() || !blocks_.front().total_allocated_bytes) return;
    const std::uint64_t after = *blocks_.front().total_allocated_bytes;
    const std::uint64_t size = size_of(blocks_.front());
    const std::uint64_t before = blocks_.front().bytes < 0 ? add_up(after, size)
                                 : after >= size           ? after - size
                                                           : 0;
    // The last address that no allocator gives out.
    constexpr std::uint64_t kNoAddress = std::numeric_limits<std::uint64_t>::max() - 1;
    if (before > known) add_block(kNoAddress, before - known);
  }

  static std::uint64_t add_up(std::uint64_t a, std::uint64_t b) {
    return a > std::numeric_limits<std::uint64_t>::max() - b
               ? std::numeric_limits<std::uint64_t>::max()
               : a + b;
  }

  // No machine has as much; sums of a forged trace must not wrap around.
  static constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 62U;
  [[nodiscard]] bool has_room_for(std::uint64_t size) const {
    return size <= kMostBytes && now_ <= kMostBytes - size;
  }

  void add_block(std::uint64_t address, std::uint64_t size) {
    if (!has_room_for(size)) {
      ++disagreements_;
      return;
    }
    SegmentState segment;
    segment.device = device_;
    segment.address = address;
    segment.size_bytes = size;
    segment.stream = sink_.add_stream(0);
    const BlockState block{address, size, size, BlockStateKind::active_allocated, StackId()};
    sink_.add_segment(StateEdge::start, segment, std::span(&block, 1));
    from_before_bytes_ = add_up(from_before_bytes_, size);
    now_ = add_up(now_, size);
  }

  void add_event(const TracedBlock& block, EventColumns& events) {
    if (block.bytes == 0) return;
    if (block.bytes > 0 && !has_room_for(size_of(block))) {
      ++disagreements_;
      return;
    }
    Event event;
    event.address = block.address;
    event.size_bytes = size_of(block);
    event.stream = stream_;
    event.time_ns = block.time_ns;
    event.action = block.bytes > 0 ? Action::alloc : Action::free_requested;
    events.push_back(event);
    if (block.bytes < 0) {
      event.action = Action::free_completed;
      events.push_back(event);
    }
    now_ =
        block.bytes > 0 ? add_up(now_, event.size_bytes) : now_ - std::min(now_, event.size_bytes);
    if (block.total_allocated_bytes && *block.total_allocated_bytes != now_) ++disagreements_;
    if (block.total_reserved_bytes && *block.total_reserved_bytes > 0)
      reserved_ = std::max(reserved_.value_or(0), *block.total_reserved_bytes);
  }

  DeviceIndex device_;
  EventSink& sink_;
  std::vector<TracedBlock> blocks_;
  std::map<std::uint64_t, std::uint64_t> seen_before_;
  std::uint32_t stream_ = 0;
  std::uint64_t now_ = 0;
  std::uint64_t from_before_bytes_ = 0;
  std::uint64_t disagreements_ = 0;
  std::optional<std::uint64_t> reserved_;
};

void deliver_steps(const std::vector<TracedStep>& steps, DeviceIndex device, EventSink& sink) {
  std::vector<Annotation> marks;
  for (const TracedStep& step : steps) {
    const StringId name = sink.add_string(step.name);
    marks.push_back({name, Annotation::Stage::start, device, step.start_ns});
    marks.push_back({name, Annotation::Stage::end, device, step.end_ns});
  }
  std::ranges::stable_sort(marks, {}, &Annotation::time_ns);
  for (const Annotation& mark : marks) sink.add_annotation(mark);
}

std::string trace_limits(const std::vector<TracedDevice>& devices, std::uint64_t other_events,
                         std::uint64_t unreadable, bool is_cpu) {
  std::string text =
      "It has no stacks, no names and no segments: lines of code, sources, reserved memory and "
      "fragmentation are unknown";
  if (is_cpu)
    text +=
        "\nOnly memory allocated while the profiler ran is counted: what was there before is "
        "unknown";
  std::uint64_t disagreements = 0;
  for (const TracedDevice& device : devices) disagreements += device.disagreements();
  if (disagreements > 0)
    text += fmt::format(
        "\nAfter {} of its events the trace states another total than its events "
        "add up to: events are missing",
        disagreements);
  if (unreadable > 0)
    text += fmt::format(
        "\nMemory events are missing. Left out because they lack a size, an address or a time: {}",
        unreadable);
  if (other_events > 0)
    text +=
        fmt::format("\nIt also has {} memory event{} of another kind of device, which {} left out",
                    other_events, other_events == 1 ? "" : "s", other_events == 1 ? "is" : "are");
  return text;
}

}  // namespace

void deliver_traced_memory(std::vector<TracedBlock> blocks, const std::vector<TracedStep>& steps,
                           const std::optional<CutPoint>& cut, std::uint64_t unreadable,
                           EventSink& sink) {
  const std::int64_t type = main_device_type(blocks);
  std::uint64_t other_events = 0;
  std::map<DeviceIndex, TracedDevice> by_number;
  constexpr std::int64_t kMostDevices = 1024;
  for (const TracedBlock& block : blocks) {
    if (block.device_type != type || block.device_id >= kMostDevices) {
      ++other_events;
      continue;
    }
    const auto number = static_cast<DeviceIndex>(std::max<std::int64_t>(block.device_id, 0));
    by_number.try_emplace(number, number, sink).first->second.add(block);
  }
  blocks.clear();
  std::vector<TracedDevice> devices;
  for (auto& [number, device] : by_number) devices.push_back(std::move(device));
  for (TracedDevice& device : devices) device.deliver();
  if (!devices.empty()) deliver_steps(steps, devices.front().device(), sink);

  Origin origin;
  origin.kind = kTraceOfProfiler;
  origin.device_type = device_type_name(type);
  origin.has_start = true;
  origin.has_traces = true;
  origin.cut = cut;
  origin.facts.emplace_back(kPoolFact, kNotRecorded);
  origin.facts.emplace_back(kLimitsFact,
                            trace_limits(devices, other_events, unreadable, type == kCpuType));
  for (const TracedDevice& device : devices) {
    if (device.peak_reserved_bytes())
      origin.facts.emplace_back(fmt::format("device {} peak_reserved_bytes", device.device()),
                                std::to_string(*device.peak_reserved_bytes()));
  }
  sink.set_origin(origin);
}

}  // namespace gpumemprof
