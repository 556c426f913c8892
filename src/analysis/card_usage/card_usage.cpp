#include "analysis/card_usage/card_usage.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "analysis/code/torch_code.h"
#include "analysis/moment/pool_state.h"
#include "analysis/sources/workspace.h"

namespace gpumemprof {
namespace {

std::optional<std::uint64_t> known(std::uint64_t bytes) {
  if (bytes == kUnknownBytes) return std::nullopt;
  return bytes;
}

Moment moment_before(std::uint32_t event) {
  return event == 0 ? Moment::start() : Moment::after(event - 1);
}

// Reserved bytes before any event, queried in order.
class ReservedBytes {
 public:
  explicit ReservedBytes(const DeviceRecord& record) {
    const SegmentColumns& segments = record.segments;
    for (std::size_t row = 0; row < segments.size(); ++row) {
      const auto size = static_cast<std::int64_t>(segments.size_bytes[row]);
      const std::uint32_t birth = segments.birth_event[row];
      steps_.push_back({birth == kNoEvent ? 0 : birth + 1, size});
      if (segments.death_event[row] != kNoEvent)
        steps_.push_back({segments.death_event[row] + 1, -size});
    }
    std::sort(steps_.begin(), steps_.end(),
              [](const Step& one, const Step& other) { return one.from < other.from; });
  }

  std::uint64_t before(std::uint32_t event) {
    for (; next_ < steps_.size() && steps_[next_].from <= event; ++next_)
      now_ += steps_[next_].bytes;
    return static_cast<std::uint64_t>(std::max<std::int64_t>(now_, 0));
  }

 private:
  struct Step {
    std::uint32_t from = 0;  // in force before this event
    std::int64_t bytes = 0;
  };
  std::vector<Step> steps_;
  std::size_t next_ = 0;
  std::int64_t now_ = 0;
};

// The library that a frame belongs to; kernels if it belongs to none.
OutsideKind kind_of_frame(std::string_view file, std::string_view name) {
  switch (meaning_of_frame(file, name).library) {
    case CudaLibrary::nccl:
      return OutsideKind::nccl;
    case CudaLibrary::cudnn:
      return OutsideKind::cudnn;
    case CudaLibrary::none:
      break;
  }
  return OutsideKind::kernels;
}

// Explains growth by the code that allocated in the meantime and the libraries first used then. A
// library is attributed only once; what comes later is other code.
class GrowthReader {
 public:
  // `has_nccl`: false if it is known that no communicator was made; code that talks to other ranks
  // does so in another way then.
  explicit GrowthReader(bool has_nccl) : has_nccl_(has_nccl) {}

  OutsideGrowth explain(const SeenCode& seen, std::uint32_t before_event,
                        std::uint8_t new_libraries) {
    OutsideGrowth growth;
    growth.before_event = before_event;
    constexpr std::array kLibraries = {
        std::pair(OutsideKind::nccl, DeviceSample::kNccl),
        std::pair(OutsideKind::cublas, std::uint8_t{0}),
        std::pair(OutsideKind::cusolver, DeviceSample::kCusolver),
        std::pair(OutsideKind::cudnn, DeviceSample::kCudnn),
    };
    for (const auto& [kind, library] : kLibraries) {
      const auto index = static_cast<std::size_t>(kind);
      const bool is_taken_up = seen.is_seen[index] || (new_libraries & library) != 0;
      const bool may_grow_again = kind == OutsideKind::nccl;  // another communicator
      if (!is_taken_up || (was_used_[index] && !may_grow_again)) continue;
      if (kind == OutsideKind::nccl && !has_nccl_) continue;
      was_used_[index] = true;
      growth.kind = kind;
      growth.stack = seen.stack[index];
      return growth;
    }
    return growth;
  }

 private:
  bool has_nccl_;
  std::array<bool, kOutsideKindCount> was_used_{};
};

std::uint32_t position_of(const DeviceSample& sample, const EventColumns& events) {
  const auto count = static_cast<std::uint32_t>(events.size());
  if (sample.before_event != kNoEvent) return std::min(sample.before_event, count);
  // One from before the device was recorded has only the time.
  const auto after = std::upper_bound(events.time_ns.begin(), events.time_ns.end(), sample.time_ns);
  return static_cast<std::uint32_t>(after - events.time_ns.begin());
}

void take_from(std::vector<std::uint64_t>& kinds, const std::vector<OutsideGrowth>& growth,
               std::uint64_t bytes) {
  // What was taken last is returned first.
  for (auto row = growth.rbegin(); row != growth.rend() && bytes > 0; ++row) {
    std::uint64_t& held = kinds[static_cast<std::size_t>(row->kind)];
    const std::uint64_t taken = std::min(held, bytes);
    held -= taken;
    bytes -= taken;
  }
}

void follow_outside(const DeviceRecord& record, const std::vector<PlacedSample>& samples,
                    bool has_nccl, CardUsage& usage) {
  ReservedBytes reserved(record);
  GrowthReader reader(has_nccl);
  usage.outside_by_kind.assign(kOutsideKindCount, 0);
  std::uint8_t last_libraries = 0;
  std::optional<std::int64_t> last;
  SeenCode seen;
  for (const PlacedSample& placed : samples) {
    const DeviceSample& sample = placed.sample;
    const std::uint32_t position = placed.position;
    seen.add(placed.seen);
    if (sample.process_bytes == kUnknownBytes) continue;
    const std::uint64_t pool = reserved.before(position);
    const auto outside = static_cast<std::int64_t>(sample.process_bytes) -
                         static_cast<std::int64_t>(std::min(pool, sample.process_bytes));
    if (!last) {
      const bool is_fresh = pool == 0;
      const auto kind = is_fresh ? OutsideKind::context : OutsideKind::before_recording;
      usage.growth.push_back({kind, outside, position, StackId()});
      usage.outside_by_kind[static_cast<std::size_t>(kind)] = static_cast<std::uint64_t>(outside);
    } else if (outside > *last) {
      const auto new_libraries = static_cast<std::uint8_t>(sample.libraries & ~last_libraries);
      OutsideGrowth growth = reader.explain(seen, position, new_libraries);
      growth.bytes = outside - *last;
      usage.outside_by_kind[static_cast<std::size_t>(growth.kind)] +=
          static_cast<std::uint64_t>(growth.bytes);
      usage.growth.push_back(growth);
    } else if (outside < *last) {
      take_from(usage.outside_by_kind, usage.growth, static_cast<std::uint64_t>(*last - outside));
    }
    last = outside;
    last_libraries = sample.libraries;
    seen = SeenCode();
  }
}

void look_at_card(const DeviceSample& sample, CardUsage& usage) {
  usage.total_bytes = known(sample.total_bytes);
  usage.firmware_bytes = known(sample.firmware_bytes);
  usage.used_bytes = known(sample.used_bytes);
  usage.process_bytes = known(sample.process_bytes);
  usage.other_processes_bytes = known(sample.other_processes_bytes);
  if (usage.used_bytes && usage.process_bytes && usage.other_processes_bytes) {
    const std::uint64_t named = *usage.process_bytes + *usage.other_processes_bytes;
    usage.is_consistent = named <= *usage.used_bytes;
    usage.driver_bytes = *usage.used_bytes - std::min(named, *usage.used_bytes);
  }
  if (usage.total_bytes && usage.used_bytes) {
    const std::uint64_t taken = *usage.used_bytes + usage.firmware_bytes.value_or(0);
    usage.free_bytes = *usage.total_bytes - std::min(taken, *usage.total_bytes);
  }
}

}  // namespace

std::string_view outside_kind_name(OutsideKind kind) {
  constexpr std::array<std::string_view, kOutsideKindCount> kNames = {
      "context", "before_recording", "kernels", "cublas", "cudnn", "cusolver", "nccl"};
  return kNames[static_cast<std::size_t>(kind)];
}

void SeenCode::add(const SeenCode& later) {
  for (std::size_t index = 0; index < kOutsideKindCount; ++index) {
    if (is_seen[index] || !later.is_seen[index]) continue;
    is_seen[index] = true;
    stack[index] = later.stack[index];
  }
}

void OutsideCode::find_stacks() {
  const StackTrie& stacks = store_.stacks();
  for (std::size_t row = stacks_.size(); row < stacks.size(); ++row) {
    const StackId caller = stacks.caller(StackId(row));
    const Frame& frame = store_.frame(stacks.frame(StackId(row)));
    const OutsideKind own = kind_of_frame(store_.text(frame.file), store_.text(frame.name));
    const OutsideKind outer = caller.is_none() ? OutsideKind::kernels : stacks_[caller.index];
    stacks_.push_back(std::max(own, outer));
  }
}

void OutsideCode::note(const EventColumns& events, std::size_t first, std::size_t end,
                       SeenCode& seen) {
  if (stacks_.size() < store_.stacks().size()) find_stacks();
  for (std::size_t event = first; event < end; ++event) {
    if (events.action[event] != Action::alloc) continue;
    const StackId stack = events.stack[event];
    OutsideKind kind = stack.is_none() ? OutsideKind::kernels : stacks_[stack.index];
    if (is_cublas_workspace(events.size_bytes[event]) && kind != OutsideKind::nccl)
      kind = OutsideKind::cublas;
    const auto index = static_cast<std::size_t>(kind);
    if (seen.is_seen[index]) continue;
    seen.is_seen[index] = true;
    seen.stack[index] = stack;
  }
}

std::optional<CardUsage> find_card_usage(const Store& store, const DeviceRecord& record) {
  std::vector<PlacedSample> samples;
  OutsideCode code(store);
  std::uint32_t last_position = 0;
  for (const DeviceSample& sample : store.samples()) {
    if (sample.device != record.device) continue;
    PlacedSample& placed = samples.emplace_back();
    placed.sample = sample;
    placed.position = position_of(sample, record.events);
    code.note(record.events, last_position, placed.position, placed.seen);
    last_position = std::max(last_position, placed.position);
  }
  std::optional<CardUsage> usage = follow_card(store, record, samples);
  if (usage) look_into_pool(record, moment_before(usage->before_event), *usage);
  return usage;
}

std::optional<CardUsage> follow_card(const Store& store, const DeviceRecord& record,
                                     const std::vector<PlacedSample>& samples) {
  if (samples.empty()) return std::nullopt;
  CardUsage usage;
  usage.device = record.device;
  usage.before_event = samples.back().position;
  usage.time_ns = samples.back().sample.time_ns;
  look_at_card(samples.back().sample, usage);
  usage.reserved_bytes = ReservedBytes(record).before(usage.before_event);
  if (usage.process_bytes) {
    usage.outside_bytes =
        *usage.process_bytes - std::min(usage.reserved_bytes, *usage.process_bytes);
    usage.is_consistent = usage.is_consistent && usage.reserved_bytes <= *usage.process_bytes;
    const bool has_nccl = store.facts().device(record.device).communicators != 0;
    follow_outside(record, samples, has_nccl, usage);
  }
  return usage;
}

void look_into_pool(const DeviceRecord& record, Moment moment, CardUsage& usage) {
  const PoolState pool = pool_state_at(record, moment);
  usage.allocated_bytes = pool.allocated_bytes;
  usage.pending_bytes = pool.waiting_bytes;
  for (const PoolSegment& segment : pool.segments)
    (segment.is_used() ? usage.split_bytes : usage.cached_bytes) += segment.free_bytes;
  for (const PoolBlock& block : pool.blocks) {
    if (!block.is_free() && !block.is_waiting)
      usage.requested_bytes += record.allocations.requested_bytes[block.allocation.index];
  }
}

}  // namespace gpumemprof
