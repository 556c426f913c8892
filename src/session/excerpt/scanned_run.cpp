#include "session/excerpt/scanned_run.h"

#include <algorithm>
#include <vector>

#include "session/recording.h"

namespace gpumemprof {
namespace {

class Scan final : public EventSink {
 public:
  StringId add_string(std::string_view text) override { return store_.add_string(text); }
  [[nodiscard]] std::string_view text(StringId id) const override { return store_.text(id); }
  FrameId add_frame(const Frame& frame) override { return store_.add_frame(frame); }
  StackId add_stack(StackId caller, FrameId frame) override {
    return store_.add_stack(caller, frame);
  }
  std::uint32_t add_stream(std::uint64_t handle) override { return store_.add_stream(handle); }
  std::uint32_t add_pool(PoolId pool) override { return store_.add_pool(pool); }
  void add_events(DeviceIndex device, EventColumns&& events) override {
    Device& known = devices_[device];
    DeviceExtent& extent = known.extent;
    for (const Action action : events.action) extent.rows.add(action);
    for (LostEvents& lost : extent.lost_events) take_time(lost, known.events, events);
    if (known.events == 0 && !events.empty()) extent.first_time_ns = events.time_ns[0];
    if (!events.empty()) extent.last_time_ns = events.time_ns.back();
    known.events += events.size();
  }
  void add_segment(StateEdge /*edge*/, const SegmentState& segment,
                   std::span<const BlockState> /*blocks*/) override {
    devices_[segment.device];
  }
  void add_annotation(const Annotation& annotation) override { devices_[annotation.device]; }
  void add_lost_events(const LostEvents& lost) override {
    devices_[lost.device].extent.lost_events.push_back(lost);
  }
  void add_sample(const DeviceSample& sample) override {
    if (store_.samples().empty()) store_.add_sample(sample);
  }
  // Whether there are any is all that is asked.
  std::uint32_t add_label_set(std::span<const Label> /*labels*/) override {
    if (store_.label_set_count() == 0) store_.add_label_set({});
    return label_sets_++;
  }
  void add_labelling(const Labelling& labelling) override { devices_[labelling.device]; }
  void add_phase_mark(const PhaseMark& mark) override { devices_[mark.device]; }
  void add_module(const ModuleLabel& module) override { store_.add_module(module); }
  void set_settings(const AllocatorSettings& settings) override { store_.set_settings(settings); }
  void set_origin(const Origin& origin) override { store_.set_origin(origin); }

  [[nodiscard]] const Store& store() const { return store_; }
  [[nodiscard]] std::vector<CountedDevice> counted() {
    std::vector<CountedDevice> found;
    for (auto& [index, device] : devices_) {
      device.extent.device = index;
      found.push_back({std::move(device.extent), device.events});
    }
    return found;
  }

 private:
  struct Device {
    DeviceExtent extent;
    std::uint64_t events = 0;
  };
  // Files of version 2 and earlier have no time for a loss: use that of the event after it.
  static void take_time(LostEvents& lost, std::uint64_t before, const EventColumns& events) {
    if (lost.first_time_ns != kUnknownTime || lost.before_event < before) return;
    if (lost.before_event - before < events.size())
      lost.first_time_ns = events.time_ns[lost.before_event - before];
  }

  Store store_;
  std::map<DeviceIndex, Device> devices_;
  std::uint32_t label_sets_ = 0;
};

}  // namespace

Result<ScannedRun> scan_run(const FileInfo& file, const OpenOptions& options) {
  const Result<std::unique_ptr<EventSource>> source = open_source(file.path, options);
  if (!source) return source.error();
  Scan scan;
  const Status delivered = source.value()->deliver(scan);
  if (!delivered) return delivered.error();
  ScannedRun run;
  run.info = find_info(scan.store(), file, scan.counted());
  run.cut = cut_in(scan.store().origin(), file.path);
  return run;
}

}  // namespace gpumemprof
