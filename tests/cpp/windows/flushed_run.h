// FlushedRun: a loaded recording, delivered again as a recorder writes it: some events of a device,
// then what is said about them, and so on. The state at the start is listed, as in a live
// recording. Labels may be said some events later than they were.
#pragma once

#include <map>
#include <vector>

#include "analysis/moment/pool_state.h"
#include "event/sinks/forwarding_sink.h"
#include "session/recording.h"
#include "store/store_source.h"

namespace gpumemprof {

class FlushedRun final : public EventSource {
 public:
  FlushedRun(const Recording& recording, std::uint32_t flush, std::uint32_t label_delay = 0)
      : recording_(recording), flush_(flush), label_delay_(label_delay) {}

  Status deliver(EventSink& sink) override {
    const Store& store = recording_.store();
    Origin origin = store.origin();
    origin.has_start = true;
    origin.has_segments = false;
    sink.set_origin(origin);
    Definitions definitions(sink);
    StoreSource source(store);
    source.set_origin(origin);
    Status delivered = source.deliver(definitions);
    if (!delivered) return delivered;
    for (const auto& record : store.devices()) deliver_start(sink, *record);
    for (std::uint32_t first = 0, rest = 1; rest > 0; first += flush_) {
      rest = 0;
      for (const auto& record : store.devices()) rest += deliver_flush(sink, *record, first);
    }
    for (const Annotation& annotation : store.annotations()) sink.add_annotation(annotation);
    for (const DeviceSample& sample : store.samples()) sink.add_sample(sample);
    return Done{};
  }

 private:
  // Lets definitions pass, and nothing that has a place in the history.
  class Definitions final : public ForwardingSink {
   public:
    using ForwardingSink::ForwardingSink;
    void add_events(DeviceIndex /*device*/, EventColumns&& /*events*/) override {}
    void add_segment(StateEdge /*edge*/, const SegmentState& /*segment*/,
                     std::span<const BlockState> /*blocks*/) override {}
    void add_annotation(const Annotation& /*annotation*/) override {}
    void add_lost_events(const LostEvents& /*lost*/) override {}
    void add_sample(const DeviceSample& /*sample*/) override {}
    void add_labelling(const Labelling& /*labelling*/) override {}
    void add_phase_mark(const PhaseMark& /*mark*/) override {}
  };

  static void deliver_start(EventSink& sink, const DeviceRecord& record) {
    const ListedState start = listed_state(record, pool_state_at(record, Moment::start()));
    for (std::size_t index = 0; index < start.segments.size(); ++index)
      sink.add_segment(StateEdge::start, start.segments[index], start.blocks_of(index));
  }

  // Returns how many events are left.
  std::uint32_t deliver_flush(EventSink& sink, const DeviceRecord& record,
                              std::uint32_t first) const {
    const auto events = static_cast<std::uint32_t>(record.events.size());
    if (first > events) return 0;
    const std::uint32_t end = std::min(events, first + flush_);
    EventColumns flushed;
    flushed.append(record.events, first, end - first);
    sink.add_events(record.device, std::move(flushed));
    const auto is_here = [&](std::uint32_t position) {
      return (position > first || first == 0) && position <= end;
    };
    for (Labelling labelling : record.labellings) {
      labelling.before_event = std::min(labelling.before_event + label_delay_, events);
      if (is_here(labelling.before_event)) sink.add_labelling(labelling);
    }
    for (const PhaseMark& mark : record.phase_marks) {
      if (is_here(mark.before_event)) sink.add_phase_mark(mark);
    }
    for (const LostEvents& lost : record.lost_events) {
      if (is_here(lost.before_event)) sink.add_lost_events(lost);
    }
    return events - end;
  }

  const Recording& recording_;
  std::uint32_t flush_;
  std::uint32_t label_delay_;
};

}  // namespace gpumemprof
