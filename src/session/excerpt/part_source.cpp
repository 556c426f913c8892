#include "session/excerpt/part_source.h"

#include <algorithm>

namespace gpumemprof {
namespace {

std::optional<LabelKind> label_kind(const KnownLabel& label) {
  if ((label.flags & AllocationLabels::kMeasured) == 0 || label.name.is_none()) return std::nullopt;
  switch (label.source) {
    case MemorySource::parameters:
      return (label.flags & AllocationLabels::kBuffer) != 0 ? LabelKind::buffer
                                                            : LabelKind::parameter;
    case MemorySource::gradients:
      return LabelKind::gradient;
    case MemorySource::optimizer_state:
      return LabelKind::optimizer_state;
    case MemorySource::inputs:
    case MemorySource::kv_cache:
      return LabelKind::input;
    default:
      return std::nullopt;
  }
}

// The phases of the part, by row; the lead-in belongs to none.
std::vector<PhaseSpan> local_spans(const std::vector<PhaseSpan>& spans, const ExcerptRange& range) {
  std::vector<PhaseSpan> found;
  if (range.lead_in > 0) found.push_back({0, Phase::other, 0});
  auto span = std::ranges::upper_bound(spans, range.from, {}, &PhaseSpan::first_event);
  if (span != spans.begin()) --span;
  for (; span != spans.end() && span->first_event < range.to; ++span)
    found.push_back(
        {range.row_of(std::max(span->first_event, range.from)), span->phase, span->step});
  return found;
}

}  // namespace

Status PartSource::deliver(EventSink& sink) {
  sink.set_origin(store_.origin());
  sink.set_settings(store_.settings());
  deliver_definitions(sink);
  for (const RunPart& part : parts_) deliver_part(sink, part);
  deliver_annotations(sink);
  return Done{};
}

void PartSource::deliver_definitions(EventSink& sink) const {
  for (std::size_t row = 0; row < store_.strings().size(); ++row)
    sink.add_string(store_.text(StringId(row)));
  for (const Frame& frame : store_.frames()) sink.add_frame(frame);
  const StackTrie& stacks = store_.stacks();
  for (std::size_t row = 0; row < stacks.size(); ++row)
    sink.add_stack(stacks.caller(StackId(row)), stacks.frame(StackId(row)));
  for (std::uint32_t row = 0; row < store_.stream_count(); ++row)
    sink.add_stream(store_.stream_handle(row));
  for (std::uint32_t row = 0; row < store_.pool_count(); ++row) sink.add_pool(store_.pool(row));
  for (const ModuleLabel& module : store_.modules()) sink.add_module(module);
}

EventColumns PartSource::lead_in(const RunPart& part, KnownPart& known) const {
  EventColumns events;
  const auto add = [&](Event event, Action action, std::uint64_t bytes) {
    event.action = action;
    event.size_bytes = bytes;
    if (event.time_ns == kUnknownTime) event.time_ns = part.first_time_ns;
    events.push_back(event);
  };
  for (const OlderAllocation& older : part.older) {
    if (store_.facts().has_pool()) {
      Event placed;
      placed.address = older.event.address;
      placed.stream = older.event.stream;
      placed.time_ns = older.event.time_ns;
      add(placed, Action::placed, older.block_bytes);
    }
    known.allocations.push_back({static_cast<std::uint32_t>(events.size()), older.birth,
                                 older.label.source, older.label.flags, older.label.name});
    add(older.event, Action::alloc, older.event.size_bytes);
    if (older.free_event)
      add(*older.free_event, Action::free_requested, older.free_event->size_bytes);
  }
  return events;
}

void PartSource::deliver_part(EventSink& sink, const RunPart& part) {
  for (std::size_t index = 0; index < part.start.segments.size(); ++index)
    sink.add_segment(StateEdge::start, part.start.segments[index], part.start.blocks_of(index));
  KnownPart known;
  known.device = part.device;
  known.range = part.range;
  EventColumns events = lead_in(part, known);
  known.range.lead_in = static_cast<std::uint32_t>(events.size());
  events.append(part.events, 0, part.events.size());
  std::vector<std::pair<std::uint32_t, KnownLabel>> born = part.born;
  std::ranges::sort(born, {}, [](const auto& one) { return one.first; });
  for (const auto& [event, label] : born)
    known.allocations.push_back(
        {known.range.row_of(event), event, label.source, label.flags, label.name});
  for (const KnownLabel& label : part.start_labels)
    known.at_start.push_back({0, kNoEvent, label.source, label.flags, label.name});
  known.spans = local_spans(part.spans, known.range);
  sink.add_events(part.device, std::move(events));
  deliver_said(sink, part, known.range);
  known_.push_back(std::move(known));
}

void PartSource::deliver_said(EventSink& sink, const RunPart& part,
                              const ExcerptRange& range) const {
  const auto shifted = [&](std::uint32_t position) {
    return position <= range.from ? range.lead_in : range.row_of(position);
  };
  for (LostEvents lost : part.lost_events) {
    if (lost.before_event > range.to) continue;
    // After chapters that were removed, figures are exact again.
    if (lost.is_bridged && lost.end_event <= range.from) continue;
    lost.before_event = shifted(lost.before_event);
    lost.end_event = shifted(std::min(lost.end_event, range.to));
    sink.add_lost_events(lost);
  }
  // What is known about older memory is said where the part begins.
  std::vector<Label> older;
  for (const OlderAllocation& one : part.older) {
    const std::optional<LabelKind> kind = label_kind(one.label);
    if (kind && !one.free_event) older.push_back({*kind, one.event.address, one.label.name});
  }
  for (std::size_t first = 0; first < older.size(); first += kMaxLabelsPerSet) {
    const std::size_t count = std::min(kMaxLabelsPerSet, older.size() - first);
    const std::uint32_t set = sink.add_label_set(std::span(older).subspan(first, count));
    sink.add_labelling({part.device, set, range.lead_in});
  }
  for (std::size_t index = 0; index < part.labellings.size(); ++index) {
    Labelling labelling = part.labellings[index];
    labelling.set = sink.add_label_set(part.label_sets[index]);
    labelling.before_event = shifted(labelling.before_event);
    sink.add_labelling(labelling);
  }
  for (PhaseMark mark : part.phase_marks) {
    mark.before_event = shifted(mark.before_event);
    sink.add_phase_mark(mark);
  }
  deliver_steps(sink, part, range);
  const DeviceSample* before = nullptr;
  for (const DeviceSample& sample : part.samples) {
    if (sample.before_event < range.from) before = &sample;
  }
  for (DeviceSample sample : part.samples) {
    const bool is_inside = sample.before_event >= range.from && sample.before_event <= range.to;
    if (!is_inside && (before == nullptr || sample.time_ns != before->time_ns)) continue;
    sample.before_event = shifted(sample.before_event);
    sink.add_sample(sample);
  }
}

// A file does not hold the phases: where its steps begin is marked, so that a reader finds them.
void PartSource::deliver_steps(EventSink& sink, const RunPart& part,
                               const ExcerptRange& range) const {
  const auto is_step = [](const PhaseMark& mark) {
    return mark.kind == PhaseMark::Kind::step_start;
  };
  if (std::ranges::any_of(part.phase_marks, is_step)) return;
  std::uint32_t step = 0;
  for (const PhaseSpan& span : local_spans(part.spans, range)) {
    if (span.step == step) continue;
    step = span.step;
    sink.add_phase_mark({part.device, PhaseMark::Kind::step_start, step, span.first_event});
  }
}

// All that are open in one of the parts, or begin or end in it.
void PartSource::deliver_annotations(EventSink& sink) const {
  std::int64_t last_ns = kUnknownTime;
  for (const RunPart& part : parts_) {
    if (!part.events.empty()) last_ns = std::max(last_ns, part.events.time_ns.back());
  }
  const auto deliver = [&](const std::vector<Annotation>& annotations) {
    for (const Annotation& annotation : annotations) {
      if (annotation.time_ns <= last_ns) sink.add_annotation(annotation);
    }
  };
  const bool are_in_parts =
      std::ranges::any_of(parts_, [](const RunPart& part) { return !part.annotations.empty(); });
  if (!are_in_parts) deliver(store_.annotations());
  for (const RunPart& part : parts_) deliver(part.annotations);
}

}  // namespace gpumemprof
