// EventSink receives a recording; EventSource delivers one. Data flows one way: from any source,
// through a sink, into the store.
//
// A source first adds what events refer to (strings, frames, stacks, streams, pools), then hands
// over whole columns of events, so that the cost of the interface does not grow with their number.
#pragma once

#include <span>
#include <string_view>

#include "base/result.h"
#include "event/allocator_settings.h"
#include "event/chapter.h"
#include "event/event.h"
#include "event/label.h"
#include "event/native_module.h"
#include "event/recording.h"

namespace gpumemprof {

class EventSink {
 public:
  EventSink() = default;
  EventSink(const EventSink&) = delete;
  EventSink& operator=(const EventSink&) = delete;
  virtual ~EventSink() = default;

  virtual StringId add_string(std::string_view text) = 0;
  [[nodiscard]] virtual std::string_view text(StringId id) const = 0;
  virtual FrameId add_frame(const Frame& frame) = 0;
  // The stack whose innermost frame is `frame`, called from `caller` (none at the bottom).
  virtual StackId add_stack(StackId caller, FrameId frame) = 0;
  // A module that frames belong to; before the first of them. Only whoever looks up what native
  // frames are called needs it.
  virtual void add_native_module(const NativeModule& module) { static_cast<void>(module); }
  virtual std::uint32_t add_stream(std::uint64_t handle) = 0;
  virtual std::uint32_t add_pool(PoolId pool) = 0;

  virtual void add_events(DeviceIndex device, EventColumns&& events) = 0;
  // The allocator's state at the start or end of the recording, segment by segment with its blocks
  // in address order.
  virtual void add_segment(StateEdge edge, const SegmentState& segment,
                           std::span<const BlockState> blocks) = 0;
  virtual void add_annotation(const Annotation& annotation) = 0;
  virtual void add_lost_events(const LostEvents& lost) = 0;
  virtual void add_sample(const DeviceSample& sample) = 0;
  // At most kMaxLabelsPerSet of them; returns the set's row.
  virtual std::uint32_t add_label_set(std::span<const Label> labels) = 0;
  virtual void add_labelling(const Labelling& labelling) = 0;
  virtual void add_phase_mark(const PhaseMark& mark) = 0;
  virtual void add_module(const ModuleLabel& module) = 0;
  virtual void set_settings(const AllocatorSettings& settings) = 0;
  virtual void set_origin(const Origin& origin) = 0;
  // Where in the run a chapter begins; after the segments of its start. Only whoever joins chapters
  // needs it.
  virtual void add_chapter_start(const ChapterStart& start) { static_cast<void>(start); }
};

class EventSource {
 public:
  EventSource() = default;
  EventSource(const EventSource&) = delete;
  EventSource& operator=(const EventSource&) = delete;
  virtual ~EventSource() = default;

  // On failure, everything delivered so far is usable.
  virtual Status deliver(EventSink& sink) = 0;
};

}  // namespace gpumemprof
