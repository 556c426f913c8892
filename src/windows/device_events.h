// DeviceEvents: passes on the events of one device, while a run that was surveyed is read again.
#pragma once

#include <functional>
#include <utility>

#include "event/rules/plausible.h"
#include "event/sinks/forwarding_sink.h"
#include "store/store.h"

namespace gpumemprof {

class DeviceEvents final : public ForwardingSink {
 public:
  using Take = std::function<void(const EventColumns& events)>;
  // The store already has the strings, stacks, streams and pools, and must outlive it.
  DeviceEvents(Store& store, DeviceIndex device, Take take)
      : ForwardingSink(store), device_(device), take_(std::move(take)) {}

  void add_events(DeviceIndex device, EventColumns&& events) override {
    if (device != device_) return;
    for (std::int64_t& time_ns : events.time_ns) time_ns = plausible_time(time_ns);
    for (std::uint64_t& bytes : events.size_bytes) bytes = plausible_size(bytes);
    take_(events);
  }
  std::uint32_t add_label_set(std::span<const Label> /*labels*/) override { return label_sets_++; }
  void add_segment(StateEdge /*edge*/, const SegmentState& /*segment*/,
                   std::span<const BlockState> /*blocks*/) override {}
  void add_annotation(const Annotation& /*annotation*/) override {}
  void add_lost_events(const LostEvents& /*lost*/) override {}
  void add_sample(const DeviceSample& /*sample*/) override {}
  void add_labelling(const Labelling& /*labelling*/) override {}
  void add_phase_mark(const PhaseMark& /*mark*/) override {}
  void add_module(const ModuleLabel& /*module*/) override {}
  void set_settings(const AllocatorSettings& /*settings*/) override {}
  void set_origin(const Origin& /*origin*/) override {}
  void add_chapter_start(const ChapterStart& /*start*/) override {}

 private:
  DeviceIndex device_;
  Take take_;
  std::uint32_t label_sets_ = 0;
};

}  // namespace gpumemprof
