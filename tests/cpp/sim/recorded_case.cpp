#include "sim/recorded_case.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "base/interner.h"
#include "ingest/torch_snapshot.h"

namespace gpumemprof::sim {
namespace {

constexpr TorchVersion kRecordedBy{2, 11};

std::string data_path(const std::string& file) {
  return std::string(GPUMEMPROF_TEST_DATA) + "/sim/" + file;
}

// Keeps what the simulator needs from a recording, and drops the contents of stacks.
class CaseSink final : public EventSink {
 public:
  explicit CaseSink(RecordedCase& recorded) : recorded_(recorded) {}

  StringId add_string(std::string_view text) override { return strings_.intern(text); }
  [[nodiscard]] std::string_view text(StringId id) const override {
    return id.is_none() ? "" : strings_.text(id);
  }
  FrameId add_frame(const Frame&) override { return FrameId(frames_++); }
  StackId add_stack(StackId, FrameId) override { return StackId(stacks_++); }
  std::uint32_t add_stream(std::uint64_t handle) override {
    const auto found = std::find(streams_.begin(), streams_.end(), handle);
    if (found != streams_.end()) return static_cast<std::uint32_t>(found - streams_.begin());
    streams_.push_back(handle);
    return static_cast<std::uint32_t>(streams_.size() - 1);
  }
  std::uint32_t add_pool(PoolId pool) override {
    const auto found = std::find(recorded_.pools.begin(), recorded_.pools.end(), pool);
    if (found != recorded_.pools.end()) {
      return static_cast<std::uint32_t>(found - recorded_.pools.begin());
    }
    recorded_.pools.push_back(pool);
    return static_cast<std::uint32_t>(recorded_.pools.size() - 1);
  }
  void add_events(DeviceIndex, EventColumns&& events) override {
    if (recorded_.events.empty()) recorded_.events = std::move(events);
  }
  void add_segment(StateEdge, const SegmentState& segment,
                   std::span<const BlockState> blocks) override {
    recorded_.segments.push_back(segment);
    recorded_.blocks.insert(recorded_.blocks.end(), blocks.begin(), blocks.end());
    recorded_.first_block.push_back(static_cast<std::uint32_t>(recorded_.blocks.size()));
  }
  void add_annotation(const Annotation&) override {}
  void add_lost_events(const LostEvents&) override {}
  void add_sample(const DeviceSample&) override {}
  std::uint32_t add_label_set(std::span<const Label>) override { return 0; }
  void add_labelling(const Labelling&) override {}
  void add_phase_mark(const PhaseMark&) override {}
  void add_module(const ModuleLabel&) override {}
  void set_settings(const AllocatorSettings&) override {}
  void set_origin(const Origin&) override {}

  // Snapshots of torch 2.11 do not say which pool served an allocation. The pool fixtures say so in
  // their metadata; elsewhere it is the pool of the segment that contains the allocation.
  void find_pools() {
    for (std::size_t row = 0; row < recorded_.events.size(); ++row) {
      const Event event = recorded_.events.row(row);
      const std::string_view tag = text(event.user_metadata);
      std::uint32_t pool = kNoPool;
      if (!tag.empty() && (tag[0] == 'u' || tag[0] == 'g')) {
        const auto number = static_cast<std::uint64_t>(std::stoul(std::string(tag.substr(1))));
        pool = add_pool(tag[0] == 'u' ? PoolId{0, number} : PoolId{number, 0});
      } else if (recorded_.events.user_metadata.empty()) {
        pool = pool_at(event.address);
      }
      recorded_.pool_of_event.push_back(pool);
    }
  }

 private:
  [[nodiscard]] std::uint32_t pool_at(std::uint64_t address) const {
    for (const SegmentState& segment : recorded_.segments) {
      if (address >= segment.address && address - segment.address < segment.size_bytes) {
        return segment.pool;
      }
    }
    return kNoPool;
  }

  RecordedCase& recorded_;
  Interner strings_;
  std::size_t frames_ = 0;
  std::size_t stacks_ = 0;
  std::vector<std::uint64_t> streams_;
};

}  // namespace

Truth Truth::read(const std::string& name) {
  Truth truth;
  std::ifstream file(data_path(name + ".truth"));
  EXPECT_TRUE(file.is_open()) << name;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string key;
    words >> key;
    if (key == "alloc_conf") words >> truth.alloc_conf;
    if (key == "memory_fraction") words >> truth.memory_fraction;
    if (key == "device_total_bytes") words >> truth.device_total_bytes;
    if (key == "counter") {
      NamedCounter counter;
      words >> counter.name >> counter.value;
      truth.counters.push_back(counter);
    }
  }
  return truth;
}

std::uint64_t Truth::counter(std::string_view name) const {
  for (const NamedCounter& counter : counters) {
    if (counter.name == name) return counter.value;
  }
  ADD_FAILURE() << "no counter " << name;
  return 0;
}

MemoryLimit Truth::limit() const {
  if (memory_fraction == 0) return {};
  return limit_of_fraction(memory_fraction, device_total_bytes, rules_for(kRecordedBy));
}

VerifyOptions Truth::options() const {
  VerifyOptions options;
  options.settings = parse_alloc_conf(alloc_conf, kRecordedBy).value().settings;
  options.rules = rules_for(kRecordedBy);
  options.device_total_bytes = device_total_bytes;
  options.limit = limit();
  return options;
}

std::unique_ptr<RecordedCase> RecordedCase::load(const std::string& name) {
  auto recorded = std::make_unique<RecordedCase>();
  recorded->truth = Truth::read(name);
  CaseSink sink(*recorded);
  auto snapshot = TorchSnapshot::open(data_path(name + ".pickle.gz"));
  EXPECT_TRUE(snapshot.ok()) << name;
  const Status delivered = snapshot.value()->deliver(sink);
  EXPECT_TRUE(delivered.ok()) << name;
  sink.find_pools();
  return recorded;
}

RecordedRun RecordedCase::run() const {
  RecordedRun run;
  run.events = &events;
  run.pools = pools;
  run.pool_of_event = pool_of_event;
  run.end = {segments, first_block, blocks};
  run.has_end = true;
  run.counters = truth.counters;
  return run;
}

}  // namespace gpumemprof::sim
