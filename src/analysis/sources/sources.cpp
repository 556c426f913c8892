#include "analysis/sources/sources.h"

#include <algorithm>

#include "analysis/growth/growth.h"
#include "analysis/modules/modules.h"
#include "analysis/phases/run_kind.h"
#include "analysis/sources/cache_code.h"
#include "analysis/sources/infer.h"
#include "analysis/sources/measured.h"
#include "analysis/sources/sweep.h"

namespace gpumemprof {
namespace {

// What the program feeds in under a cache's name, or holds as a module buffer with one, is a cache.
void name_caches(const Store& store, AllocationLabels& labels) {
  for (std::size_t row = 0; row < labels.name.size(); ++row) {
    const bool may_be_cache = labels.source[row] == MemorySource::inputs ||
                              (labels.flags[row] & AllocationLabels::kBuffer) != 0;
    if (!may_be_cache || labels.name[row].is_none() ||
        !is_kv_cache_name(store.text(labels.name[row])))
      continue;
    labels.source[row] = MemorySource::kv_cache;
    labels.flags[row] = static_cast<std::uint8_t>(labels.flags[row] & ~AllocationLabels::kBuffer);
  }
}

// What is kept for ever, from the code that allocated it alone.
MemorySource source_of_kept(CodeKind kind) {
  switch (kind) {
    case CodeKind::forward:
      return MemorySource::activations;
    case CodeKind::backward:
      return MemorySource::gradients;
    case CodeKind::optimizer_step:
      return MemorySource::optimizer_state;
    default:
      return MemorySource::unknown;
  }
}

}  // namespace

AllocationLabels label_allocations(const Store& store, const DeviceRecord& record,
                                   const std::vector<PhaseSpan>& spans) {
  return label_allocations(
      store, record, spans,
      {find_run_kind(store, record, spans), find_growth(store, record, spans).rows, nullptr});
}

AllocationLabels label_allocations(const Store& store, const DeviceRecord& record,
                                   const std::vector<PhaseSpan>& spans, const KnownRun& known) {
  AllocationLabels labels;
  labels.source.resize(record.allocations.size(), MemorySource::unknown);
  labels.flags.resize(record.allocations.size(), 0);
  labels.has_recorded = take_labels(store, record, known.labels, labels);
  // Memory that is kept from step to step, in growing amounts, shows nothing by its lifetime. What
  // a label of the recording names is left out.
  std::vector<std::uint32_t> grown = known.grown;
  std::erase_if(grown, [&](std::uint32_t row) { return labels.is_measured(row); });
  infer_sources(store, record, spans, known.kind, labels);
  settle_by_labels(store, record, spans, known.labels, labels);
  if (known.kind == RunKind::inference) name_caches(store, labels);
  if (grown.empty()) return labels;
  const std::vector<CodeKind> kinds = code_kinds(store);
  for (const std::uint32_t row : grown) {
    const StackId stack = record.allocations.stack[row];
    const bool is_named_input = labels.source[row] == MemorySource::inputs &&
                                !labels.name.empty() && !labels.name[row].is_none();
    if (!is_named_input)
      labels.source[row] =
          stack.is_none() ? MemorySource::unknown : source_of_kept(kinds[stack.index]);
    labels.flags[row] = AllocationLabels::kGrown;
  }
  return labels;
}

SourceBytes sources_at(const DeviceRecord& record, const AllocationLabels& labels, Moment moment) {
  SourceBytes bytes;
  const AllocationColumns& rows = record.allocations;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    if (!rows.is_allocated_at(row, moment)) continue;
    bytes.add(labels.source[row], rows.requested_bytes[row], rows.size_bytes[row]);
  }
  return bytes;
}

namespace {

Moment peak_moment(const DeviceReplay& replay) {
  if (!replay.has_history) return Moment::end();
  return replay.peak_event == kNoEvent ? Moment::start() : Moment::after(replay.peak_event);
}

// For each source: whether a label names every row.
std::array<Provenance, kMemorySourceCount> provenance_at_moment(const DeviceRecord& record,
                                                                const AllocationLabels& labels,
                                                                Moment moment) {
  std::array<Provenance, kMemorySourceCount> found;
  found.fill(labels.has_recorded ? Provenance::measured : Provenance::inferred);
  for (std::size_t row = 0; row < record.allocations.size(); ++row) {
    if (!labels.is_measured(row) && record.allocations.is_allocated_at(row, moment))
      found[static_cast<std::size_t>(labels.source[row])] = Provenance::inferred;
  }
  return found;
}

// A row that a figure does not count has no effect on it.
void find_provenance(const DeviceRecord& record, const AllocationLabels& labels, Moment peak,
                     DeviceSources& sources) {
  const auto at_peak = provenance_at_moment(record, labels, peak);
  for (std::size_t index = 0; index < kMemorySourceCount; ++index) {
    SourceFigure& figure = sources.figures[index];
    figure.provenance = figure.bytes_at_peak > 0 ? at_peak[index] : figure.max_provenance;
  }
  sources.rounding.provenance = sources.rounding.max_provenance = Provenance::measured;
}

std::optional<std::uint64_t> buffer_bytes(const DeviceRecord& record,
                                          const AllocationLabels& labels, Moment moment) {
  if (!labels.has_recorded) return std::nullopt;
  std::uint64_t bytes = 0;
  for (std::size_t row = 0; row < record.allocations.size(); ++row) {
    if ((labels.flags[row] & AllocationLabels::kBuffer) != 0 &&
        record.allocations.is_allocated_at(row, moment))
      bytes += record.allocations.requested_bytes[row];
  }
  return bytes;
}

}  // namespace

void place_peak(DeviceSources& sources) {
  const auto holds = [&](const PhaseFigures& phase) {
    return sources.peak_event >= phase.first_event && sources.peak_event <= phase.last_event;
  };
  const auto phase = std::find_if(sources.phases.begin(), sources.phases.end(), holds);
  if (sources.peak_event == kNoEvent || phase == sources.phases.end()) return;
  sources.peak_phase = phase->phase;
  sources.peak_step = phase->step;
  const std::uint64_t length = phase->last_event - phase->first_event + 1;
  const std::uint64_t into = sources.peak_event - phase->first_event;
  constexpr std::uint64_t kParts = 10;
  const bool goes_backward =
      std::next(phase) != sources.phases.end() && std::next(phase)->phase == Phase::backward;
  if (phase->phase == Phase::forward && goes_backward)
    sources.is_end_of_forward = into * kParts >= length * (kParts - 1);
  if (phase->phase == Phase::backward && phase != sources.phases.begin() &&
      std::prev(phase)->phase == Phase::forward)
    sources.is_start_of_backward = into * kParts <= length;
}

void find_sources_at_peak(const Store& store, const DeviceRecord& record,
                          const AllocationLabels& labels, Moment peak, DeviceSources& sources) {
  const SourceBytes at_peak = sources_at(record, labels, peak);
  sources.peak_bytes = at_peak.allocated();
  for (std::size_t index = 0; index < kMemorySourceCount; ++index)
    sources.figures[index].bytes_at_peak = at_peak.by_source[index];
  sources.rounding.bytes_at_peak = at_peak.rounding;
  find_provenance(record, labels, peak, sources);
  sources.buffer_bytes_at_peak = buffer_bytes(record, labels, peak);
  sources.modules = modules_at(store, record, labels, peak);
  sources.has_module_instances = store.has_module_numbers();
}

DeviceSources find_sources(const Store& store, const DeviceRecord& record,
                           const DeviceReplay& replay, const AllocationLabels& labels,
                           std::vector<PhaseSpan> spans, const SourcesOptions& options) {
  DeviceSources sources;
  sources.device = record.device;
  sources.has_labels = labels.has_recorded;
  sources.kind = find_run_kind(store, record, spans);
  sources.has_stacks = std::any_of(record.allocations.stack.begin(), record.allocations.stack.end(),
                                   [](StackId stack) { return !stack.is_none(); });
  sources.peak_event = replay.has_history ? replay.peak_event : kNoEvent;
  sources.spans = std::move(spans);
  Sweep sweep(record.events.size(), labels.has_recorded, options);
  sweep.start(record, labels, sources);
  sweep.pass({record, labels, 0, record.events.size(), 0}, sources);
  sweep.finish(sources);
  find_sources_at_peak(store, record, labels, peak_moment(replay), sources);
  place_peak(sources);
  return sources;
}

}  // namespace gpumemprof
