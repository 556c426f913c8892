#include "store/store_source.h"

namespace gpumemprof {

void DefinitionCopy::deliver(const Store& store, EventSink& sink) {
  for (std::size_t row = 0; row < store.strings().size(); ++row)
    strings_.push_back(sink.add_string(store.text(StringId(row))));
  for (Frame frame : store.frames()) {
    frame.name = string(frame.name);
    frame.file = string(frame.file);
    frames_.push_back(sink.add_frame(frame));
  }
  const StackTrie& stacks = store.stacks();
  for (std::size_t row = 0; row < stacks.size(); ++row) {
    const StackId id(row);
    // A caller always has a lower number than what it calls, so it is already known.
    stacks_.push_back(sink.add_stack(stack(stacks.caller(id)), frames_[stacks.frame(id).index]));
  }
  for (std::uint32_t row = 0; row < store.stream_count(); ++row)
    streams_.push_back(sink.add_stream(store.stream_handle(row)));
  for (std::uint32_t row = 0; row < store.pool_count(); ++row)
    pools_.push_back(sink.add_pool(store.pool(row)));
}

void StoreSource::replace_events(DeviceIndex device, EventColumns events) {
  replaced_.insert_or_assign(device, std::move(events));
}

Status StoreSource::deliver(EventSink& sink) {
  sink.set_origin(origin_);
  sink.set_settings(settings_);
  copy_.deliver(store_, sink);
  deliver_label_definitions(sink);
  for (const auto& record : store_.devices()) {
    const auto replacement = replaced_.find(record->device);
    if (replacement != replaced_.end()) {
      deliver_events(sink, record->device, replacement->second);
      continue;
    }
    if (!replaced_.empty()) continue;
    deliver_state(sink, StateEdge::start, record->start_state);
    deliver_events(sink, record->device, record->events);
    for (const LostEvents& lost : record->lost_events) sink.add_lost_events(lost);
    deliver_labels(sink, *record);
    deliver_state(sink, StateEdge::end, record->final_state);
  }
  for (Annotation annotation : store_.annotations()) {
    annotation.name = copy_.string(annotation.name);
    sink.add_annotation(annotation);
  }
  for (const DeviceSample& sample : store_.samples()) sink.add_sample(sample);
  return Done{};
}

void StoreSource::deliver_label_definitions(EventSink& sink) {
  // Replaced events are other rows at other addresses: labels do not apply to them.
  if (!replaced_.empty()) return;
  std::vector<Label> labels;
  for (std::uint32_t row = 0; row < store_.label_set_count(); ++row) {
    labels.assign(store_.label_set(row).begin(), store_.label_set(row).end());
    for (Label& label : labels) label.name = copy_.string(label.name);
    label_sets_.push_back(sink.add_label_set(labels));
  }
  for (const ModuleLabel& module : store_.modules()) sink.add_module(copy_.module(module));
}

void StoreSource::deliver_labels(EventSink& sink, const DeviceRecord& record) {
  for (Labelling labelling : record.labellings) {
    labelling.set = label_sets_[labelling.set];
    sink.add_labelling(labelling);
  }
  for (const PhaseMark& mark : record.phase_marks) sink.add_phase_mark(mark);
}

void StoreSource::deliver_state(EventSink& sink, StateEdge edge, const ListedState& state) {
  for (std::size_t index = 0; index < state.segments.size(); ++index) {
    SegmentState segment = state.segments[index];
    segment.stream = copy_.stream(segment.stream);
    segment.pool = copy_.pool(segment.pool);
    segment.stack = copy_.stack(segment.stack);
    std::vector<BlockState> blocks(state.blocks_of(index).begin(), state.blocks_of(index).end());
    for (BlockState& block : blocks) block.stack = copy_.stack(block.stack);
    sink.add_segment(edge, segment, blocks);
  }
}

void StoreSource::deliver_events(EventSink& sink, DeviceIndex device, const EventColumns& events) {
  constexpr std::size_t kBatch = std::size_t{1} << 16;
  for (std::size_t first = 0; first < events.size(); first += kBatch) {
    EventColumns batch;
    for (std::size_t row = first; row < std::min(events.size(), first + kBatch); ++row) {
      Event event = events.row(row);
      event.stream = copy_.stream(event.stream);
      event.pool = copy_.pool(event.pool);
      event.stack = copy_.stack(event.stack);
      event.forward_stack = copy_.stack(event.forward_stack);
      event.compile_context = copy_.string(event.compile_context);
      event.user_metadata = copy_.string(event.user_metadata);
      batch.push_back(event);
    }
    sink.add_events(device, std::move(batch));
  }
}

}  // namespace gpumemprof
