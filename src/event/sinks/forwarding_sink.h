// ForwardingSink: passes a recording on to another sink. Whoever changes one part of a recording on
// its way overrides that.
#pragma once

#include <utility>

#include "event/event_sink.h"

namespace gpumemprof {

class ForwardingSink : public EventSink {
 public:
  // The other one must outlive it.
  explicit ForwardingSink(EventSink& to) : to_(to) {}

  StringId add_string(std::string_view text) override { return to_.add_string(text); }
  [[nodiscard]] std::string_view text(StringId id) const override { return to_.text(id); }
  FrameId add_frame(const Frame& frame) override { return to_.add_frame(frame); }
  StackId add_stack(StackId caller, FrameId frame) override { return to_.add_stack(caller, frame); }
  void add_native_module(const NativeModule& module) override { to_.add_native_module(module); }
  std::uint32_t add_stream(std::uint64_t handle) override { return to_.add_stream(handle); }
  std::uint32_t add_pool(PoolId pool) override { return to_.add_pool(pool); }
  void add_events(DeviceIndex device, EventColumns&& events) override {
    to_.add_events(device, std::move(events));
  }
  void add_segment(StateEdge edge, const SegmentState& segment,
                   std::span<const BlockState> blocks) override {
    to_.add_segment(edge, segment, blocks);
  }
  void add_annotation(const Annotation& annotation) override { to_.add_annotation(annotation); }
  void add_lost_events(const LostEvents& lost) override { to_.add_lost_events(lost); }
  void add_sample(const DeviceSample& sample) override { to_.add_sample(sample); }
  std::uint32_t add_label_set(std::span<const Label> labels) override {
    return to_.add_label_set(labels);
  }
  void add_labelling(const Labelling& labelling) override { to_.add_labelling(labelling); }
  void add_phase_mark(const PhaseMark& mark) override { to_.add_phase_mark(mark); }
  void add_module(const ModuleLabel& module) override { to_.add_module(module); }
  void set_settings(const AllocatorSettings& settings) override { to_.set_settings(settings); }
  void set_origin(const Origin& origin) override { to_.set_origin(origin); }
  void add_chapter_start(const ChapterStart& start) override { to_.add_chapter_start(start); }

 protected:
  EventSink& to_;
};

}  // namespace gpumemprof
