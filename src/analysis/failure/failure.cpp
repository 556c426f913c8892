#include "analysis/failure/failure.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "analysis/advice/completion/completion.h"
#include "analysis/advice/inference/inference.h"
#include "analysis/overview/when.h"
#include "analysis/phases/run_kind.h"

namespace gpumemprof {
namespace {

constexpr std::size_t kTensorsShown = 3;

// Of one device: the event of the failure; kNoEvent if it has none.
std::uint32_t failed_event(const EventColumns& events, const FailureOptions& options) {
  std::uint32_t found = kNoEvent;
  for (std::uint32_t event = 0; event < events.size(); ++event) {
    if (events.action[event] != Action::oom) continue;
    const std::int64_t time = events.time_ns[event];
    const bool is_later = options.until_unix_ns && time != kUnknownTime &&
                          time > *options.until_unix_ns && found != kNoEvent;
    if (is_later) break;
    found = event;
  }
  return found;
}

std::uint64_t count_ooms(const EventColumns& events, std::uint32_t last) {
  std::uint64_t count = 0;
  for (std::uint32_t event = 0; event < events.size() && event <= last; ++event)
    count += events.action[event] == Action::oom ? 1U : 0U;
  return count;
}

bool are_alike(const HeldTensor& one, const HeldTensor& other) {
  if (one.bytes != other.bytes || one.name != other.name) return false;
  return !one.name.is_none() || one.stack == other.stack;
}

// Equal ones count as one entry.
void add_tensor(const HeldTensor& tensor, std::vector<HeldTensor>& largest) {
  const auto same = std::ranges::find_if(
      largest, [&](const HeldTensor& other) { return are_alike(tensor, other); });
  if (same != largest.end()) {
    ++same->count;
    return;
  }
  const auto is_larger = [](const HeldTensor& a, const HeldTensor& b) { return a.bytes > b.bytes; };
  largest.insert(std::ranges::upper_bound(largest, tensor, is_larger), tensor);
  if (largest.size() > kTensorsShown) largest.pop_back();
}

std::vector<HeldTensor> largest_tensors(const DeviceRecord& record, Moment moment) {
  std::vector<HeldTensor> largest;
  const AllocationColumns& rows = record.allocations;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    if (largest.size() == kTensorsShown && rows.size_bytes[row] < largest.back().bytes) continue;
    if (!rows.is_allocated_at(row, moment)) continue;
    HeldTensor tensor;
    tensor.bytes = rows.size_bytes[row];
    tensor.stack = rows.stack[row];
    if (row < record.labels.source.size()) tensor.source = record.labels.source[row];
    if (row < record.labels.name.size()) tensor.name = record.labels.name[row];
    add_tensor(tensor, largest);
  }
  return largest;
}

// The first and last event of a step; none if there is no such step.
std::optional<std::pair<std::uint32_t, std::uint32_t>> events_of_step(
    const std::vector<PhaseSpan>& phases, std::uint32_t step) {
  std::optional<std::pair<std::uint32_t, std::uint32_t>> found;
  for (std::size_t index = 0; index < phases.size(); ++index) {
    if (phases[index].step != step) continue;
    if (!found) found.emplace(phases[index].first_event, phases[index].first_event);
    if (index + 1 < phases.size()) found->second = phases[index + 1].first_event - 1;
  }
  return found;
}

// The event of most allocated bytes in a range of events, and these bytes.
std::pair<std::uint32_t, std::uint64_t> peak_between(const DeviceRecord& record,
                                                     std::uint32_t first, std::uint32_t last) {
  const AllocationColumns& rows = record.allocations;
  std::vector<std::int64_t> changes(last - first + 1, 0);
  std::int64_t live = 0;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const auto bytes = static_cast<std::int64_t>(rows.size_bytes[row]);
    const std::uint32_t birth = rows.alloc_event[row];
    const std::uint32_t death = rows.free_requested_event[row];
    const bool is_before = birth == kNoEvent || birth < first;
    if (is_before && death >= first) live += bytes;
    if (!is_before && birth <= last) changes[birth - first] += bytes;
    if (death >= first && death <= last) changes[death - first] -= bytes;
  }
  std::pair<std::uint32_t, std::int64_t> peak = {first, live};
  for (std::uint32_t event = first; event <= last; ++event) {
    live += changes[event - first];
    if (live > peak.second) peak = {event, live};
  }
  return {peak.first, static_cast<std::uint64_t>(std::max<std::int64_t>(0, peak.second))};
}

using LineKey = std::pair<FrameId, bool>;

std::vector<GrownLine> grown_lines(const std::vector<LiveLine>& before,
                                   const std::vector<LiveLine>& now) {
  std::map<LineKey, std::uint64_t> held;
  for (const LiveLine& line : before)
    held[{line.line.frame, line.line.is_backward}] += line.line.bytes;
  std::vector<GrownLine> grown;
  for (const LiveLine& line : now) {
    const std::uint64_t then = held[{line.line.frame, line.line.is_backward}];
    if (line.line.bytes > then) grown.push_back({line.line, line.line.bytes - then});
  }
  std::ranges::stable_sort(grown, std::ranges::greater{}, &GrownLine::added_bytes);
  return grown;
}

std::optional<FittingStep> fitting_step(const Store& store, const DeviceRecord& record,
                                        const std::vector<PhaseSpan>& phases,
                                        const Failure& failure) {
  if (!failure.when.step || *failure.when.step < 2 || phases.empty()) return std::nullopt;
  FittingStep before;
  before.step = static_cast<std::uint32_t>(*failure.when.step - 1);
  const auto range = events_of_step(phases, before.step);
  if (!range || range->second < range->first) return std::nullopt;
  const auto [event, bytes] = peak_between(record, range->first, range->second);
  before.peak_bytes = bytes;
  const LiveSet live = live_at(record, Moment::after(event));
  before.grown = grown_lines(live_by_user_line(live, store), failure.lines);
  return before;
}

Failure explain_device(const Store& store, const DeviceRecord& record, const DeviceReplay& replay,
                       const std::vector<PhaseSpan>& phases, std::uint32_t event,
                       const FailureOptions& options) {
  Failure failure;
  failure.device = record.device;
  failure.device_name = store.device_name(record.device);
  const std::uint32_t last = static_cast<std::uint32_t>(record.events.size()) - 1;
  const std::uint32_t at = event == kNoEvent ? last : event;
  const Moment moment = Moment::after(at);
  failure.when = when_of(store, record, phases, at);
  failure.ooms = count_ooms(record.events, at);
  failure.growth = find_growth(store, record, phases);
  if (event == kNoEvent) {
    failure.memory = free_memory_at(record, store, moment);
  } else {
    failure.oom = find_oom_at(store, record, replay, event, options.deadline);
    blame_growth(*failure.oom, failure.growth, failure.when.step);
    if (!failure.growth.is_growing) {
      failure.leaks = find_device_leaks(store, record, replay, phases);
      blame_leaks(*failure.oom, *failure.leaks, record.events.size());
    }
    failure.oom->is_need_known = find_run_kind(store, record, phases) == RunKind::inference
                                     ? !is_inference_cut_short(store, record)
                                     : complete_run(store, record, phases).why_not.empty();
    failure.memory = failure.oom->memory;
  }
  failure.rounding_bytes = failure.memory.rounding_bytes;
  failure.card_usage = find_card_usage(store, record);
  failure.sources = sources_at(record, record.labels, moment);
  failure.lines = live_by_user_line(live_at(record, moment), store);
  failure.largest = largest_tensors(record, moment);
  failure.before = fitting_step(store, record, phases, failure);
  return failure;
}

}  // namespace

Result<Failure> explain_failure(const Store& store, const std::vector<DeviceReplay>& replays,
                                const std::vector<std::vector<PhaseSpan>>& phases,
                                const std::string& path, const FailureOptions& options) {
  std::size_t chosen = store.devices().size();
  std::uint32_t chosen_event = kNoEvent;
  std::int64_t chosen_time = kUnknownTime;
  for (std::size_t index = 0; index < store.devices().size(); ++index) {
    const DeviceRecord& record = *store.devices()[index];
    const EventColumns& events = record.events;
    if (events.empty() || (options.device && *options.device != record.device)) continue;
    const std::uint32_t event =
        options.is_outside_allocator ? kNoEvent : failed_event(events, options);
    if (event == kNoEvent && !options.is_outside_allocator) continue;
    const std::int64_t time = events.time_ns[event == kNoEvent ? events.size() - 1 : event];
    if (chosen < store.devices().size() && time <= chosen_time) continue;
    chosen = index;
    chosen_event = event;
    chosen_time = time;
  }
  if (chosen == store.devices().size()) {
    return Error{ErrorCode::usage, "it does not show that memory ran out", path,
                 "gpumemprof report shows what it holds"};
  }
  return explain_device(store, *store.devices()[chosen], replays[chosen], phases[chosen],
                        chosen_event, options);
}

std::optional<std::uint64_t> room_after(const Failure& failure) {
  if (!failure.oom || !failure.oom->is_need_known) return std::nullopt;
  const OomReport& oom = *failure.oom;
  const bool can_help = oom.cause == OomCause::shortage || oom.cause == OomCause::limit ||
                        oom.cause == OomCause::other_processes ||
                        oom.cause == OomCause::outside_pool;
  if (!can_help) return std::nullopt;
  if (oom.limit) return oom.limit->low;
  if (oom.device_free_bytes == kUnknownBytes) return std::nullopt;
  return oom.memory.reserved_bytes + oom.device_free_bytes;
}

}  // namespace gpumemprof
