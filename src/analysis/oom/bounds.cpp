#include "analysis/oom/bounds.h"

#include <algorithm>

#include "analysis/whatif/recorded_device.h"
#include "sim/limit.h"

namespace gpumemprof {
namespace {

// Where the sample falls among the events; one from before the device was recorded has only the
// time.
std::uint32_t position_of(const DeviceSample& sample, const EventColumns& events) {
  const auto count = static_cast<std::uint32_t>(events.size());
  if (sample.before_event != kNoEvent) return std::min(sample.before_event, count);
  const auto after = std::upper_bound(events.time_ns.begin(), events.time_ns.end(), sample.time_ns);
  return static_cast<std::uint32_t>(after - events.time_ns.begin());
}

// The last sample before the event, or the first after it.
const DeviceSample* nearest_sample(const std::vector<DeviceSample>& samples,
                                   const DeviceRecord& record, std::uint32_t event) {
  const DeviceSample* found = nullptr;
  for (const DeviceSample& sample : samples) {
    if (found == nullptr || position_of(sample, record.events) <= event) found = &sample;
  }
  return found;
}

void attribute(const Store& store, const DeviceRecord& record, const DeviceSample& sample,
               CardState& card) {
  if (sample.process_bytes == kUnknownBytes || sample.other_processes_bytes == kUnknownBytes)
    return;
  const std::uint32_t position = position_of(sample, record.events);
  const Moment moment = position == 0 ? Moment::start() : Moment::after(position - 1);
  const std::uint64_t reserved = free_memory_at(record, store, moment).reserved_bytes;
  if (sample.process_bytes < reserved) return;  // the pool changed while the driver was queried
  card.others_bytes = sample.other_processes_bytes;
  card.outside_bytes = sample.process_bytes - reserved;
  if (!card.taken_bytes) return;
  // The driver itself holds some MiB that no process owns.
  constexpr std::uint64_t kTolerance = 256 * kMiB;
  const std::uint64_t explained = *card.others_bytes + *card.outside_bytes;
  const std::uint64_t difference =
      std::max(explained, *card.taken_bytes) - std::min(explained, *card.taken_bytes);
  card.is_attributed = difference <= kTolerance;
}

}  // namespace

CardState card_at(const Store& store, const DeviceRecord& record,
                  const std::vector<DeviceSample>& samples, const OomReport& oom) {
  CardState card;
  card.total_bytes = store.facts().device(record.device).total_bytes;
  const DeviceSample* sample = nearest_sample(samples, record, oom.event);
  if (sample != nullptr && !card.total_bytes && sample->total_bytes != kUnknownBytes) {
    const std::uint64_t firmware =
        sample->firmware_bytes == kUnknownBytes ? 0 : sample->firmware_bytes;
    card.total_bytes = sample->total_bytes - std::min(firmware, sample->total_bytes);
  }
  if (card.total_bytes && oom.device_free_bytes != kUnknownBytes &&
      oom.device_free_bytes <= *card.total_bytes) {
    const std::uint64_t used = *card.total_bytes - oom.device_free_bytes;
    card.taken_bytes = used - std::min(used, oom.memory.reserved_bytes);
  }
  if (sample != nullptr) attribute(store, record, *sample, card);
  return card;
}

std::optional<ProcessLimit> limit_at(const Store& store, const DeviceRecord& record,
                                     const DeviceReplay& replay, HistoryPart part,
                                     const WholeRun& whole, const OomReport& oom) {
  const AllocatorSettings& settings = store.settings();
  const std::uint64_t segment = sim::segment_bytes_for(oom.wanted_bytes, settings);
  const std::uint64_t refused = oom.memory.reserved_bytes + segment;
  const Result<TorchVersion> version = parse_torch_version(store.facts().process().torch);
  const DeviceFacts& facts = store.facts().device(record.device);
  // A program may change its limit during the run: the final one comes first.
  for (const auto& fraction : {facts.memory_fraction_at_end, facts.memory_fraction}) {
    if (!fraction || !facts.total_bytes || !version) continue;
    const sim::MemoryLimit stated =
        sim::limit_of_fraction(*fraction, *facts.total_bytes, sim::rules_for(version.value()));
    if (stated.allowed_bytes < refused && stated.allowed_bytes >= oom.memory.reserved_bytes)
      return ProcessLimit{{stated.allowed_bytes, stated.allowed_bytes}, true};
  }
  // The card had no room either: nothing shows that there was a limit.
  if (oom.device_free_bytes == kUnknownBytes || oom.device_free_bytes < segment)
    return std::nullopt;
  std::uint64_t low = oom.memory.reserved_bytes;
  std::optional<sim::InferredLimit> inferred;
  if (whole.history != nullptr) {
    inferred = whole.history->inferred_limit();
  } else if (part == HistoryPart::whole) {
    const RecordedDevice recorded(store, record, replay);
    inferred = sim::infer_limit(recorded.run(), settings);
  }
  // A limit that was changed during the run proves nothing about this failure.
  if (inferred && inferred->low_bytes < refused) low = std::max(low, inferred->low_bytes);
  return ProcessLimit{{low, refused - 1}, false};
}

}  // namespace gpumemprof
