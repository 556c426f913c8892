#include "index/excerpt.h"

#include <algorithm>

#include "event/sinks/forwarding_sink.h"
#include "index/excerpt_plan.h"
#include "store/store_source.h"
#include "trace/chapters/chapter_stretch.h"

namespace gpumemprof {
namespace {

// Of what a stretch delivers, what belongs to one device, in positions of the excerpt.
class ShiftingSink final : public ForwardingSink {
 public:
  ShiftingSink(EventSink& to, const Excerpt& excerpt) : ForwardingSink(to), excerpt_(excerpt) {}

  void add_events(DeviceIndex device, EventColumns&& events) override {
    if (device != excerpt_.device) return;
    events_ += events.size();
    to_.add_events(device, std::move(events));
  }
  void add_annotation(const Annotation& annotation) override {
    if (annotation.device == excerpt_.device) to_.add_annotation(annotation);
  }
  void add_lost_events(const LostEvents& lost) override {
    LostEvents moved = lost;
    if (move(lost.device, moved.before_event) && move(lost.device, moved.end_event))
      to_.add_lost_events(moved);
  }
  void add_sample(const DeviceSample& sample) override {
    DeviceSample moved = sample;
    if (sample.before_event == kNoEvent ? sample.device == excerpt_.device
                                        : move(sample.device, moved.before_event))
      to_.add_sample(moved);
  }
  void add_labelling(const Labelling& labelling) override {
    Labelling moved = labelling;
    if (move(labelling.device, moved.before_event)) to_.add_labelling(moved);
  }
  void add_phase_mark(const PhaseMark& mark) override {
    PhaseMark moved = mark;
    if (move(mark.device, moved.before_event)) to_.add_phase_mark(moved);
  }
  // All of them are known from the whole run.
  void add_module(const ModuleLabel& /*module*/) override {}

  [[nodiscard]] std::uint64_t events() const { return events_; }

 private:
  // False: it is about something else.
  [[nodiscard]] bool move(DeviceIndex device, std::uint32_t& position) const {
    const bool is_inside = device == excerpt_.device && position >= excerpt_.first_event &&
                           position <= excerpt_.end_event;
    if (is_inside) position = excerpt_.from_run(position);
    return is_inside;
  }

  const Excerpt& excerpt_;
  std::uint64_t events_ = 0;
};

Event birth_of(const OldAllocation& old, const DefinitionCopy& copy) {
  Event event;
  event.action = Action::alloc;
  event.address = old.address;
  event.size_bytes = old.requested_bytes;
  event.stream = copy.stream(old.stream);
  event.time_ns = old.time_ns;
  event.stack = copy.stack(old.stack);
  event.compile_context = copy.string(old.compile_context);
  event.user_metadata = copy.string(old.user_metadata);
  event.pool = copy.pool(old.pool);
  event.forward_stack = copy.stack(old.forward_stack);
  event.module = old.module;
  return event;
}

// The events that lead to the state, and where each allocation is made again.
EventColumns prelude_to(const DeviceCheckpoint& state, bool has_pool, const DefinitionCopy& copy,
                        std::vector<KnownAllocation>& known) {
  EventColumns events;
  for (const OldAllocation& old : state.allocations) {
    Event event = birth_of(old, copy);
    if (has_pool) {
      Event placed = event;
      placed.action = Action::placed;
      placed.size_bytes = old.size_bytes;
      events.push_back(placed);
    }
    known.push_back({old.birth_event, static_cast<std::uint32_t>(events.size()), old.source,
                     old.flags, copy.string(old.name)});
    events.push_back(event);
    if (!old.is_pending) continue;
    event.action = Action::free_requested;
    events.push_back(event);
  }
  return events;
}

trace::DefinedRows rows_of_sink(const trace::DefinedRows& rows, const DefinitionCopy& copy) {
  trace::DefinedRows mapped;
  for (const StringId id : rows.strings) mapped.strings.push_back(copy.string(id));
  for (const StackId id : rows.stacks) mapped.stacks.push_back(copy.stack(id));
  for (const std::uint32_t row : rows.streams) mapped.streams.push_back(copy.stream(row));
  for (const std::uint32_t row : rows.pools) mapped.pools.push_back(copy.pool(row));
  return mapped;
}

}  // namespace

ExcerptSource::ExcerptSource(std::unique_ptr<Plan> plan) : plan_(std::move(plan)) {}
ExcerptSource::~ExcerptSource() = default;

Status ExcerptSource::deliver(EventSink& sink) {
  const Store& store = plan_->file->store();
  Origin origin = store.origin();
  origin.has_start = true;
  origin.has_segments = false;
  origin.chapters.clear();
  origin.steps.clear();
  sink.set_origin(origin);
  sink.set_settings(store.settings());
  DefinitionCopy copy;
  copy.deliver(store, sink);
  for (const ModuleLabel& module : store.modules()) sink.add_module(copy.module(module));

  excerpt_.device = plan_->device->device;
  excerpt_.first_event = plan_->device->checkpoints[plan_->first];
  excerpt_.end_event = plan_->device->checkpoints[plan_->end];
  const Result<DeviceCheckpoint> start = plan_->checkpoints->state(*plan_->device, plan_->first);
  if (!start) return start.error();
  for (SegmentState segment : start.value().segments) {
    segment.device = excerpt_.device;
    segment.stream = copy.stream(segment.stream);
    segment.pool = copy.pool(segment.pool);
    segment.stack = copy.stack(segment.stack);
    sink.add_segment(StateEdge::start, segment, {});
  }
  EventColumns prelude = prelude_to(start.value(), store.facts().has_pool(), copy, excerpt_.known);
  excerpt_.prelude = static_cast<std::uint32_t>(prelude.size());
  // Even if it has no event: the device is in every excerpt of it.
  sink.add_events(excerpt_.device, std::move(prelude));

  ShiftingSink shifting(sink, excerpt_);
  Status read = read_blocks(copy, shifting);
  if (!read) return read;
  if (shifting.events() != excerpt_.end_event - excerpt_.first_event)
    return damaged_index(plan_->recording);
  return take_later_states(copy);
}

Status ExcerptSource::read_blocks(const DefinitionCopy& copy, EventSink& sink) {
  IndexFile& file = *plan_->file;
  const RecordingPlace& from = file.directory().checkpoints[plan_->first];
  const RecordingPlace& to = file.directory().checkpoints[plan_->end];
  if (file.directory().is_of_chapters()) {
    const auto rows_of = [&](std::uint32_t chapter) {
      std::optional<trace::DefinedRows> rows = file.rows_of(chapter);
      if (rows) rows = rows_of_sink(*rows, copy);
      return rows;
    };
    return deliver_stretch(plan_->recording, {from, to, excerpt_.device, excerpt_.first_event},
                           rows_of, sink);
  }
  const Result<std::unique_ptr<StretchReader>> reader = StretchReader::open(
      plan_->recording, sink, rows_of_sink(file.rows(), copy), file.label_blocks());
  if (!reader) return reader.error();
  return reader.value()->deliver(from.block, to.block.byte_offset);
}

// Of the checkpoints after the first: the phases before each, and what outlives the stretch.
Status ExcerptSource::take_later_states(const DefinitionCopy& copy) {
  std::vector<PhaseSpan>& spans = excerpt_.spans;
  for (std::size_t checkpoint = plan_->first + 1; checkpoint <= plan_->end; ++checkpoint) {
    const Result<std::vector<PhaseSpan>> before =
        plan_->checkpoints->spans_before(*plan_->device, checkpoint);
    if (!before) return before.error();
    for (PhaseSpan span : before.value()) {
      if (span.first_event < excerpt_.first_event || span.first_event >= excerpt_.end_event)
        return damaged_index(plan_->recording);
      span.first_event = excerpt_.from_run(span.first_event);
      if (!spans.empty() && spans.back().first_event >= span.first_event)
        return damaged_index(plan_->recording);
      if (spans.empty() || spans.back().phase != span.phase || spans.back().step != span.step)
        spans.push_back(span);
    }
  }
  const Result<DeviceCheckpoint> end = plan_->checkpoints->state(*plan_->device, plan_->end);
  if (!end) return end.error();
  for (const OldAllocation& old : end.value().allocations) {
    if (old.birth_event == kNoEvent || old.birth_event < excerpt_.first_event) continue;
    if (old.birth_event >= excerpt_.end_event) return damaged_index(plan_->recording);
    excerpt_.known.push_back({old.birth_event, excerpt_.from_run(old.birth_event), old.source,
                              old.flags, copy.string(old.name)});
  }
  excerpt_.kind = plan_->kind;
  return Done{};
}

}  // namespace gpumemprof
