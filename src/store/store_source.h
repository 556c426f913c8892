// StoreSource: delivers what a store holds into another sink, so that any recording can be written
// again, unchanged or with its events replaced.
#pragma once

#include <map>
#include <vector>

#include "event/event_sink.h"
#include "store/store.h"

namespace gpumemprof {

// What events refer to, delivered to another sink: ours → the sink's.
class DefinitionCopy {
 public:
  void deliver(const Store& store, EventSink& sink);

  [[nodiscard]] StackId stack(StackId id) const { return id.is_none() ? id : stacks_[id.index]; }
  [[nodiscard]] StringId string(StringId id) const {
    return id.is_none() ? id : strings_[id.index];
  }
  [[nodiscard]] std::uint32_t pool(std::uint32_t row) const {
    return row == kNoPool ? row : pools_[row];
  }
  [[nodiscard]] std::uint32_t stream(std::uint32_t row) const { return streams_[row]; }
  [[nodiscard]] ModuleLabel module(ModuleLabel module) const {
    module.path = string(module.path);
    module.class_name = string(module.class_name);
    module.forward_file = string(module.forward_file);
    return module;
  }

 private:
  std::vector<StringId> strings_;
  std::vector<FrameId> frames_;
  std::vector<StackId> stacks_;
  std::vector<std::uint32_t> streams_;
  std::vector<std::uint32_t> pools_;
};

class StoreSource final : public EventSource {
 public:
  // The store must outlive the source.
  explicit StoreSource(const Store& store)
      : store_(store), origin_(store.origin()), settings_(store.settings()) {}

  // The origin to deliver; the store's own unless set.
  void set_origin(Origin origin) { origin_ = std::move(origin); }
  void set_settings(const AllocatorSettings& settings) { settings_ = settings; }
  // Events that refer to this store's stacks, streams and pools. Devices without a replacement
  // deliver their own events; once any device's events are replaced, no state at the start or the
  // end is delivered: it would not match them.
  void replace_events(DeviceIndex device, EventColumns events);

  Status deliver(EventSink& sink) override;

 private:
  void deliver_label_definitions(EventSink& sink);
  void deliver_labels(EventSink& sink, const DeviceRecord& record);
  void deliver_state(EventSink& sink, StateEdge edge, const ListedState& state);
  void deliver_events(EventSink& sink, DeviceIndex device, const EventColumns& events);

  const Store& store_;
  Origin origin_;
  AllocatorSettings settings_;
  std::map<DeviceIndex, EventColumns> replaced_;
  DefinitionCopy copy_;
  std::vector<std::uint32_t> label_sets_;  // ours → the sink's
};

}  // namespace gpumemprof
