// A recording written as a PyTorch snapshot and read back is the same recording.
#include "report/torch_snapshot/torch_snapshot.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <sstream>

#include "ingest/torch_snapshot.h"
#include "replay/replay.h"
#include "report/torch_snapshot/state_at_end.h"

namespace gpumemprof::test {
namespace {

class TempFile {
 public:
  TempFile() {
    std::string name = (std::filesystem::temp_directory_path() / "gpumemprof-XXXXXX").string();
    const int descriptor = ::mkstemp(name.data());
    EXPECT_GE(descriptor, 0);
    ::close(descriptor);
    path_ = name;
  }
  TempFile(const TempFile&) = delete;
  TempFile& operator=(const TempFile&) = delete;
  ~TempFile() { std::filesystem::remove(path_); }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string stack_text(const Store& store, StackId stack) {
  std::string text;
  for (const FrameId id : store.stacks().frames_of(stack)) {
    const Frame& frame = store.frame(id);
    text += std::string(store.text(frame.name)) + "@" + std::string(store.text(frame.file)) + ":" +
            std::to_string(frame.line) + "<";
  }
  return text;
}

std::string pool_text(const Store& store, std::uint32_t pool) {
  return std::to_string(store.pool(pool).graph) + "/" + std::to_string(store.pool(pool).user);
}

std::string segments_text(const Store& store, const ListedState& state, bool has_stacks) {
  std::ostringstream out;
  for (std::size_t index = 0; index < state.segments.size(); ++index) {
    const SegmentState& segment = state.segments[index];
    out << "segment " << segment.address << " " << segment.size_bytes << " "
        << store.stream_handle(segment.stream) << " " << pool_text(store, segment.pool) << " "
        << segment.is_small << segment.is_expandable << "\n";
    for (const BlockState& block : state.blocks_of(index)) {
      const bool is_active = block.state != BlockStateKind::inactive;
      out << "  " << block.address << " " << block.size_bytes << " "
          << static_cast<int>(block.state) << " " << (is_active ? block.requested_bytes : 0)
          << (has_stacks ? stack_text(store, block.stack) : "") << "\n";
    }
  }
  return out.str();
}

std::string events_text(const Store& store) {
  std::ostringstream out;
  for (const auto& record : store.devices()) {
    out << "device " << record->device << "\n";
    for (std::size_t row = 0; row < record->events.size(); ++row) {
      const Event event = record->events.row(row);
      out << action_name(event.action) << " " << event.address << " " << event.size_bytes << " "
          << store.stream_handle(event.stream) << " " << event.time_ns << " "
          << stack_text(store, event.stack) << "|" << store.text(event.compile_context) << "|"
          << store.text(event.user_metadata) << "|" << pool_text(store, event.pool) << "\n";
    }
  }
  for (const Annotation& annotation : store.annotations()) {
    out << store.text(annotation.name) << " " << static_cast<int>(annotation.stage) << " "
        << annotation.device << " " << annotation.time_ns << "\n";
  }
  return out.str();
}

std::unique_ptr<Store> load(const std::string& path) {
  auto store = std::make_unique<Store>();
  EXPECT_TRUE(TorchSnapshot::open(path).value()->deliver(*store));
  return store;
}

std::vector<std::string> recorded_snapshots() {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(GPUMEMPROF_TEST_DATA "/snapshots")) {
    if (entry.path().string().ends_with(".pickle.gz")) paths.push_back(entry.path().string());
  }
  EXPECT_FALSE(paths.empty());
  return paths;
}

TEST(TorchSnapshotFile, is_read_as_what_was_written) {
  for (const std::string& path : recorded_snapshots()) {
    const std::unique_ptr<Store> store = load(path);
    const TempFile file;
    ASSERT_TRUE(write_torch_snapshot(*store, file.path(), FileSink::Existing::replace));
    const std::unique_ptr<Store> back = load(file.path());
    EXPECT_FALSE(back->origin().cut) << path;
    EXPECT_TRUE(events_text(*back) == events_text(*store)) << path;
    EXPECT_EQ(back->settings(), store->settings()) << path;
    EXPECT_EQ(back->stacks().size(), store->stacks().size()) << path;
    ASSERT_EQ(back->devices().size(), store->devices().size()) << path;
    for (std::size_t index = 0; index < store->devices().size(); ++index) {
      EXPECT_TRUE(segments_text(*back, back->devices()[index]->final_state, true) ==
                  segments_text(*store, store->devices()[index]->final_state, true))
          << path;
    }
  }
}

// If the recording does not list the state at the end, replay knows it: the same as torch listed.
TEST(TorchSnapshotFile, has_the_segments_that_replay_found) {
  for (const std::string& path : recorded_snapshots()) {
    const std::unique_ptr<Store> store = load(path);
    for (const auto& record : store->devices()) {
      const DeviceReplay replayed = replay_device(*record, store->settings(), store->origin());
      if (replayed.exact_from_event != 0U || record->events.empty()) continue;
      EXPECT_EQ(segments_text(*store, state_at_end(*record, false), false),
                segments_text(*store, record->final_state, false))
          << path;
    }
  }
}

TEST(TorchSnapshotFile, holds_several_devices_and_pinned_host_memory) {
  Store store;
  Origin origin;
  origin.has_segments = true;
  origin.has_traces = true;
  store.set_origin(origin);
  const std::uint32_t stream = store.add_stream(0xFFFFFFFFFFFFFFF0);
  const BlockState block{1 << 21, 1 << 21, 5, BlockStateKind::active_pending_free, {}};
  store.add_segment(StateEdge::end,
                    {kHostDevice, 1 << 21, 1 << 21, stream, kNoPool, false, false, {}},
                    {&block, 1});
  for (const DeviceIndex device : {DeviceIndex{3}, DeviceIndex{1}, kHostDevice}) {
    EventColumns events;
    for (std::uint64_t row = 0; row < 2500; ++row) {
      events.push_back(
          {Action::alloc, 512 * row, row, stream, kUnknownTime, {}, {}, {}, kNoPool, {}});
    }
    events.push_back(
        {Action::oom, kUnknownBytes, 7, stream, -5000, {}, {}, {}, store.add_pool({0, 4}), {}});
    store.add_events(device, std::move(events));
  }
  const TempFile file;
  ASSERT_TRUE(write_torch_snapshot(store, file.path(), FileSink::Existing::replace));
  const std::unique_ptr<Store> back = load(file.path());
  EXPECT_EQ(events_text(*back), events_text(store));
  EXPECT_EQ(segments_text(*back, back->devices().at(0)->final_state, true),
            segments_text(store, store.devices().at(0)->final_state, true));
}

TEST(TorchSnapshotFile, tells_of_a_full_disk) {
  const Status status = write_torch_snapshot(Store(), "/dev/full", FileSink::Existing::replace);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().sentence(),
            "/dev/full: the disk is full; free some space, or write to another disk");
}

}  // namespace
}  // namespace gpumemprof::test
