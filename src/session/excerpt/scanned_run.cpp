#include "session/excerpt/scanned_run.h"

#include <algorithm>
#include <vector>

#include "event/sinks/forwarding_sink.h"
#include "session/recording.h"
#include "trace/writer.h"

namespace gpumemprof {
namespace {

// Keeps what is said about the run, and counts its events.
class Scan final : public ForwardingSink {
 public:
  Scan() : ForwardingSink(store_) {}

  void add_events(DeviceIndex device, EventColumns&& events) override {
    Device& known = devices_[device];
    DeviceExtent& extent = known.extent;
    for (const Action action : events.action) extent.rows.add(action);
    if (known.events == 0 && !events.empty()) extent.first_time_ns = events.time_ns[0];
    if (!events.empty()) extent.last_time_ns = events.time_ns.back();
    known.last_first = known.events;
    known.last_actions.assign(events.action.begin(), events.action.end());
    known.events += events.size();
  }
  void add_segment(StateEdge /*edge*/, const SegmentState& segment,
                   std::span<const BlockState> /*blocks*/) override {
    devices_[segment.device];
  }
  void add_annotation(const Annotation& annotation) override { devices_[annotation.device]; }
  void add_lost_events(const LostEvents& lost) override {
    Device& known = devices_[lost.device];
    known.extent.lost_events.push_back(lost);
    if (!lost.is_of_chapters) return;
    // Those that lead over the gap come right before it, and are nothing that the program did.
    EventCounts bridging;
    for (std::uint64_t number = lost.before_event; number < lost.end_event; ++number) {
      const std::uint64_t row = number - std::min(number, known.last_first);
      if (number >= known.last_first && row < known.last_actions.size())
        bridging.add(known.last_actions[row]);
    }
    known.extent.rows.allocations -= bridging.allocations;
    known.extent.rows.frees -= bridging.frees;
    known.extent.rows.others -= bridging.others;
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
    // The last events that were passed on.
    std::uint64_t last_first = 0;
    std::vector<Action> last_actions;
  };

  Store store_;
  std::map<DeviceIndex, Device> devices_;
  std::uint32_t label_sets_ = 0;
};

// Passes the run on to a file. Its ids are the file's: the scan gets nothing that has one.
class Copy final : public ForwardingSink {
 public:
  Copy(TraceWriter& writer, Scan& scan) : ForwardingSink(writer), writer_(writer), scan_(scan) {}

  void add_events(DeviceIndex device, EventColumns&& events) override {
    writer_.append_events(device, events);
    scan_.add_events(device, std::move(events));
  }
  void add_lost_events(const LostEvents& lost) override {
    to_.add_lost_events(lost);
    scan_.add_lost_events(lost);
  }
  void add_sample(const DeviceSample& sample) override {
    to_.add_sample(sample);
    scan_.add_sample(sample);
  }
  void set_settings(const AllocatorSettings& settings) override {
    to_.set_settings(settings);
    scan_.set_settings(settings);
  }
  void set_origin(const Origin& origin) override {
    to_.set_origin(origin);
    scan_.set_origin(origin);
  }

 private:
  TraceWriter& writer_;
  Scan& scan_;
};

ScannedRun scanned(Scan& scan, const FileInfo& file) {
  ScannedRun run;
  run.info = find_info(scan.store(), file, scan.counted());
  run.cut = cut_in(scan.store().origin(), file.path);
  return run;
}

}  // namespace

Result<ScannedRun> scan_run(const FileInfo& file, const OpenOptions& options) {
  const Result<std::unique_ptr<EventSource>> source = open_source(file.path, options);
  if (!source) return source.error();
  Scan scan;
  const Status delivered = source.value()->deliver(scan);
  if (!delivered) return delivered.error();
  return scanned(scan, file);
}

Result<ScannedRun> copy_run(const FileInfo& file, const OpenOptions& options,
                            const std::string& output, FileSink::Existing existing) {
  const Result<std::unique_ptr<EventSource>> source = open_source(file.path, options);
  if (!source) return source.error();
  TraceOptions written;
  written.existing = existing;
  written.appears = FileSink::Appears::when_closed;
  // What the run is becomes known while it is read.
  const Result<std::unique_ptr<TraceWriter>> writer =
      TraceWriter::open(output, Origin(), AllocatorSettings(), written);
  if (!writer) return writer.error();
  Scan scan;
  Copy copy(*writer.value(), scan);
  const Status delivered = source.value()->deliver(copy);
  if (!delivered) return delivered.error();
  const Status closed = writer.value()->close(scan.store().origin().ending.value_or(Ending()));
  if (!closed) return closed.error();
  return scanned(scan, file);
}

}  // namespace gpumemprof
