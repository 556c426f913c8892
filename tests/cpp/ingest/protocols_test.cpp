// The same snapshot in every pickle protocol and style gives the same store.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "ingest/small_snapshot.h"
#include "ingest/torch_snapshot.h"

namespace gpumemprof::test {
namespace {

std::string file_bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Written by Python's own pickle module; see tests/data/snapshots/make_variants.py.
std::string variant(int protocol) {
  const std::filesystem::path folder =
      std::filesystem::path(GPUMEMPROF_TEST_DATA) / "snapshots" / "variants";
  return file_bytes(folder / ("protocol_" + std::to_string(protocol) + ".pickle"));
}

class Protocol : public testing::TestWithParam<int> {};

TEST_P(Protocol, written_by_python_reads_as_any_other) {
  const Read expected = read_bytes(variant(4));
  ASSERT_TRUE(expected.ok()) << expected.error().sentence();
  const Read read = read_bytes(variant(GetParam()));
  ASSERT_TRUE(read.ok()) << read.error().sentence();
  EXPECT_FALSE(read.value()->origin().cut);
  EXPECT_EQ(described(*read.value()), described(*expected.value()));
}

TEST_P(Protocol, reads_the_same_from_gzip) {
  const Read plain = read_bytes(variant(GetParam()));
  const Read unzipped = read_bytes(gzipped(variant(GetParam())));
  ASSERT_TRUE(plain.ok() && unzipped.ok());
  EXPECT_FALSE(unzipped.value()->origin().cut);
  EXPECT_EQ(described(*unzipped.value()), described(*plain.value()));
}

TEST_P(Protocol, written_item_by_item_or_in_batches_reads_the_same) {
  const std::string expected = described(*read_object(small_snapshot(), 4));
  EXPECT_EQ(described(*read_object(small_snapshot(), GetParam())), expected);
}

INSTANTIATE_TEST_SUITE_P(Pickle, Protocol, testing::Range(0, 6));

TEST(TorchSnapshot, holds_what_the_pickle_said) {
  const Read read = read_bytes(variant(4));
  ASSERT_TRUE(read.ok());
  const Store& store = *read.value();
  ASSERT_EQ(store.devices().size(), 1U);
  const DeviceRecord& device = *store.devices()[0];
  EXPECT_EQ(store.device_name(device.device), "cuda:1");
  ASSERT_EQ(device.events.size(), 7U);
  const Event first = device.events.row(0);
  EXPECT_EQ(first.action, Action::segment_alloc);
  EXPECT_EQ(first.address, 0x7f4e00000000U);
  EXPECT_EQ(first.size_bytes, 2U << 20);
  EXPECT_EQ(first.time_ns, 1760000000000000000);
  EXPECT_EQ(described_stack(store, first.stack),
            " forward_größe_内存@/train/model.py:41 main@/train/main.py:7");
  EXPECT_EQ(described_stack(store, device.events.stack[2]), " main@/train/main.py:7");
  EXPECT_EQ(store.text(device.events.row(2).user_metadata), "step 1");
  EXPECT_EQ(store.text(device.events.row(5).compile_context), "0/0");
  EXPECT_TRUE(device.events.row(1).compile_context.is_none());
  EXPECT_EQ(device.events.action[6], Action::other);
  ASSERT_EQ(device.final_state.segments.size(), 1U);
  ASSERT_EQ(device.final_state.blocks.size(), 3U);
  EXPECT_TRUE(device.final_state.segments[0].is_small);
  EXPECT_EQ(device.final_state.blocks[0].requested_bytes, 600U);
  EXPECT_EQ(device.final_state.blocks[2].state, BlockStateKind::inactive);
  ASSERT_EQ(store.annotations().size(), 2U);
  EXPECT_EQ(store.annotations()[1].stage, Annotation::Stage::end);
  EXPECT_EQ(store.annotations()[1].device, 1);
  EXPECT_DOUBLE_EQ(store.settings().garbage_collection_threshold, 0.75);
  EXPECT_EQ(store.settings().max_split_bytes, kNoSplitLimit);
}

TEST(TorchSnapshot, reads_what_torchs_own_pickler_writes) {
  // More than 256 memo entries, so that LONG_BINPUT and LONG_BINGET occur.
  PyRef snapshot = small_snapshot();
  const PyRef trace = at(snapshot, "device_traces")->items[0];
  const PyRef frames = at(trace->items[1], "frames");
  for (std::int64_t index = 0; index < 2500; ++index) {
    trace->items.push_back(py_event("alloc", kBase + 4096 + 512 * index, 512, frames));
  }
  const auto python = read_object(snapshot, 4);
  const auto torch = read_object(snapshot, 2, PickleStyle::torch);
  EXPECT_EQ(torch->devices().at(0)->events.size(), 2506U);
  EXPECT_EQ(described(*torch), described(*python));
}

TEST(TorchSnapshot, reads_several_gzip_members_as_one_file) {
  const std::string bytes = pickled(small_snapshot());
  const std::string members =
      gzipped(bytes.substr(0, 100)) + gzipped("") + gzipped(bytes.substr(100));
  const Read read = read_bytes(members);
  ASSERT_TRUE(read.ok()) << read.error().sentence();
  EXPECT_EQ(described(*read.value()), described(*read_object(small_snapshot())));
}

TEST(TorchSnapshot, passes_over_what_follows_the_pickle) {
  const std::string bytes = pickled(small_snapshot());
  for (const std::string& file : {bytes + "trailing", gzipped(bytes) + std::string(100, '\0')}) {
    const Read read = read_bytes(file);
    ASSERT_TRUE(read.ok()) << read.error().sentence();
    EXPECT_FALSE(read.value()->origin().cut);
  }
}

TEST(TorchSnapshot, keeps_every_frame_of_a_very_deep_stack) {
  // Python writes lists in batches of 1000 items, and the last one of 1 item without a mark.
  for (const std::int64_t depth : {999, 1000, 1001, 1002, 2001, 3500}) {
    std::vector<PyRef> frames;
    for (std::int64_t line = 0; line < depth; ++line)
      frames.push_back(py_frame("recurse", "/train/deep.py", line));
    PyRef snapshot = small_snapshot();
    set(at(snapshot, "device_traces")->items[0]->items[1], "frames", py_list(frames));
    for (const int protocol : {0, 2, 4}) {
      const auto store = read_object(snapshot, protocol);
      const std::vector<FrameId> stack =
          store->stacks().frames_of(store->devices().at(0)->events.stack[1]);
      ASSERT_EQ(stack.size(), static_cast<std::size_t>(depth)) << "protocol " << protocol;
      EXPECT_EQ(store->frame(stack.front()).line, 0U);
      EXPECT_EQ(store->frame(stack.back()).line, static_cast<std::uint32_t>(depth - 1));
    }
  }
}

}  // namespace
}  // namespace gpumemprof::test
