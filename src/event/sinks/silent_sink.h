// SilentSink: takes a recording and keeps nothing of it. Whoever wants one part of a recording
// overrides that.
#pragma once

#include "event/event_sink.h"

namespace gpumemprof {

class SilentSink : public EventSink {
 public:
  StringId add_string(std::string_view /*text*/) override { return {}; }
  [[nodiscard]] std::string_view text(StringId /*id*/) const override { return {}; }
  FrameId add_frame(const Frame& /*frame*/) override { return {}; }
  StackId add_stack(StackId /*caller*/, FrameId /*frame*/) override { return {}; }
  std::uint32_t add_stream(std::uint64_t /*handle*/) override { return 0; }
  std::uint32_t add_pool(PoolId /*pool*/) override { return 0; }
  void add_events(DeviceIndex /*device*/, EventColumns&& /*events*/) override {}
  void add_segment(StateEdge /*edge*/, const SegmentState& /*segment*/,
                   std::span<const BlockState> /*blocks*/) override {}
  void add_annotation(const Annotation& /*annotation*/) override {}
  void add_lost_events(const LostEvents& /*lost*/) override {}
  void add_sample(const DeviceSample& /*sample*/) override {}
  std::uint32_t add_label_set(std::span<const Label> /*labels*/) override { return 0; }
  void add_labelling(const Labelling& /*labelling*/) override {}
  void add_phase_mark(const PhaseMark& /*mark*/) override {}
  void add_module(const ModuleLabel& /*module*/) override {}
  void set_settings(const AllocatorSettings& /*settings*/) override {}
  void set_origin(const Origin& /*origin*/) override {}
};

}  // namespace gpumemprof
