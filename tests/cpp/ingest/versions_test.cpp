// What appears and disappears from one torch version to the next.
#include <gtest/gtest.h>

#include "ingest/small_snapshot.h"

namespace gpumemprof::test {
namespace {

TEST(TorchVersions, torch_2_0_has_history_instead_of_frames_and_no_addresses_of_blocks) {
  const PyRef frames = py_list({py_frame("main", "/train/main.py", 7)});
  const auto old_block = [&](std::int64_t size, std::string_view state,
                             std::vector<PyRef> history) {
    PyRef block = py_dict({{"size", py_int(size)}, {"state", py_text(state)}});
    if (!history.empty()) set(block, "history", py_list(std::move(history)));
    return block;
  };
  const auto entry = [&](std::int64_t real_size) {
    return py_dict({{"addr", py_int(kBase)}, {"real_size", py_int(real_size)}, {"frames", frames}});
  };
  const PyRef segment =
      py_dict({{"device", py_int(0)},
               {"address", py_int(kBase)},
               {"total_size", py_int(2 << 20)},
               {"allocated_size", py_int(1536)},
               {"active_size", py_int(1536)},
               {"stream", py_int(0)},
               {"segment_type", py_text("small")},
               {"blocks", py_list({old_block(512, "active_allocated", {entry(100), entry(300)}),
                                   old_block(1024, "active_pending_free", {entry(1000)}),
                                   old_block((2 << 20) - 1536, "inactive", {})})}});
  PyRef event = py_event("alloc", kBase, 100);
  for (const char* key : {"time_us", "compile_context", "user_metadata", "pool_id"})
    erase(event, key);
  const PyRef snapshot =
      py_dict({{"segments", py_list({segment})}, {"device_traces", py_list({py_list({event})})}});
  for (const int protocol : {0, 2, 4}) {
    const auto store = read_object(snapshot, protocol);
    const ListedState& state = only_device(*store).final_state;
    ASSERT_EQ(state.blocks.size(), 3U);
    EXPECT_EQ(state.blocks[0].address, static_cast<std::uint64_t>(kBase));
    EXPECT_EQ(state.blocks[1].address, static_cast<std::uint64_t>(kBase) + 512);
    EXPECT_EQ(state.blocks[2].address, static_cast<std::uint64_t>(kBase) + 1536);
    EXPECT_EQ(state.blocks[0].requested_bytes, 100U);
    EXPECT_EQ(state.blocks[1].requested_bytes, 1000U);
    EXPECT_EQ(state.blocks[1].state, BlockStateKind::active_pending_free);
    EXPECT_EQ(described_stack(*store, state.blocks[0].stack), " main@/train/main.py:7");
    EXPECT_EQ(only_device(*store).events.time_ns[0], kUnknownTime);
    EXPECT_TRUE(only_device(*store).events.stack[0].is_none());
    EXPECT_EQ(state.segments[0].pool, kNoPool);
  }
}

TEST(TorchVersions, a_bare_list_of_segments_is_a_snapshot_without_history) {
  for (const int protocol : {0, 1, 2, 3, 4, 5}) {
    const PyRef segments = at(small_snapshot(), "segments");
    const auto store = read_object(segments, protocol);
    EXPECT_TRUE(store->origin().has_segments);
    EXPECT_FALSE(store->origin().has_traces);
    ASSERT_EQ(store->devices().size(), 1U);
    EXPECT_EQ(only_device(*store).final_state.blocks.size(), 3U);
    EXPECT_TRUE(only_device(*store).events.empty());
  }
}

TEST(TorchVersions, an_empty_process_is_a_snapshot) {
  EXPECT_TRUE(read_object(py_snapshot({}, {}))->origin().has_segments);
  EXPECT_TRUE(read_object(py_snapshot({}, {py_list(), py_list()}))->origin().has_traces);
  EXPECT_TRUE(read_object(py_list())->origin().has_segments);
}

TEST(TorchVersions, events_go_to_the_device_of_their_place) {
  const auto alloc = [](std::int64_t size) { return py_event("alloc", kBase, size); };
  const PyRef snapshot = py_snapshot(
      {py_segment(3, kBase, 2 << 20, {py_block(kBase, 2 << 20, 0, "inactive")})},
      {py_list(), py_list({alloc(1), alloc(2)}), py_list(), py_list({alloc(3)}), py_list()});
  for (const int protocol : {0, 2, 4}) {
    const auto store = read_object(snapshot, protocol);
    ASSERT_EQ(store->devices().size(), 2U);
    EXPECT_EQ(store->device_name(store->devices()[0]->device), "cuda:1");
    EXPECT_EQ(store->devices()[0]->events.size(), 2U);
    EXPECT_EQ(store->device_name(store->devices()[1]->device), "cuda:3");
    EXPECT_EQ(store->devices()[1]->events.size(), 1U);
    EXPECT_EQ(store->devices()[1]->events.size_bytes[0], 3U);
    EXPECT_EQ(store->devices()[1]->final_state.segments.size(), 1U);
  }
}

TEST(TorchVersions, optional_columns_stay_right_over_several_devices) {
  PyRef plain = py_event("alloc", kBase, 1);
  for (const char* key : {"compile_context", "user_metadata", "pool_id"}) erase(plain, key);
  PyRef labelled = py_event("alloc", kBase, 2);
  set(labelled, "user_metadata", py_text("label"));
  set(labelled, "pool_id", py_tuple({py_int(0), py_int(5)}));
  set(labelled, "compile_context", py_text("1/0"));
  const auto store =
      read_object(py_snapshot({}, {py_list({plain, plain}), py_list({plain, labelled})}));
  const EventColumns& first = store->devices().at(0)->events;
  const EventColumns& second = store->devices().at(1)->events;
  EXPECT_TRUE(first.row(1).user_metadata.is_none());
  EXPECT_EQ(first.row(0).pool, kNoPool);
  EXPECT_TRUE(second.row(0).user_metadata.is_none());
  EXPECT_EQ(store->text(second.row(1).user_metadata), "label");
  EXPECT_EQ(store->text(second.row(1).compile_context), "1/0");
  EXPECT_EQ(store->pool(second.row(1).pool), (PoolId{0, 5}));
}

TEST(TorchVersions, torch_2_14_tells_of_pinned_host_memory) {
  PyRef snapshot = small_snapshot();
  set(snapshot, "host_segments",
      py_list({py_segment(-1, kBase, 4096, {py_block(kBase, 4096, 4000, "active_allocated")})}));
  set(snapshot, "host_traces", py_list({py_list({py_event("alloc", kBase, 4000)})}));
  const auto store = read_object(snapshot);
  ASSERT_EQ(store->devices().size(), 2U);
  EXPECT_EQ(store->device_name(store->devices()[0]->device), "host");
  EXPECT_EQ(store->devices()[0]->events.size(), 1U);
  EXPECT_EQ(store->devices()[0]->final_state.segments.size(), 1U);
  EXPECT_EQ(store->devices()[1]->events.size(), 6U);

  set(snapshot, "host_segments", py_list());
  set(snapshot, "host_traces", py_list());
  EXPECT_EQ(described(*read_object(snapshot)), described(*read_object(small_snapshot())));
}

TEST(TorchVersions, an_intel_gpu_is_told_by_its_settings) {
  PyRef snapshot = small_snapshot();
  set(snapshot, "allocator_settings",
      py_dict({{"PYTORCH_XPU_ALLOC_CONF", py_text("expandable_segments:True")},
               {"expandable_segments", py_bool(true)}}));
  const auto store = read_object(snapshot);
  EXPECT_EQ(store->device_name(0), "xpu:0");
  EXPECT_TRUE(store->settings().expandable_segments);
}

TEST(TorchVersions, settings_decide_sizes) {
  PyRef snapshot = small_snapshot();
  PyRef divisions = py_dict();
  for (std::int64_t power = 0; power < 16; ++power) {
    set(divisions, std::to_string(std::int64_t{1} << power), py_int(power == 3 ? 4 : 0));
  }
  set(snapshot, "allocator_settings",
      py_dict(
          {{"PYTORCH_CUDA_ALLOC_CONF",
            py_text("max_split_size_mb:64, max_non_split_rounding_mb:32,large_segment_size_mb:40")},
           {"max_split_size", py_int(64 << 20)},
           {"garbage_collection_threshold", py_float(0.8)},
           {"expandable_segments", py_bool(true)},
           {"roundup_power2_divisions", divisions}}));
  const AllocatorSettings settings = read_object(snapshot)->settings();
  EXPECT_EQ(settings.max_split_bytes, 64U << 20);
  EXPECT_EQ(settings.max_non_split_rounding_bytes, 32U << 20);
  EXPECT_EQ(settings.large_segment_bytes, 40U << 20);
  EXPECT_DOUBLE_EQ(settings.garbage_collection_threshold, 0.8);
  EXPECT_TRUE(settings.expandable_segments);
  EXPECT_EQ(settings.round_size((9U << 20) + 1), 10U << 20);  // between 8 and 16 MiB in quarters
  EXPECT_EQ(settings.round_size((5U << 20) + 1), (5U << 20) + 512);
}

TEST(TorchVersions, unknown_fields_are_passed_over_and_unknown_actions_kept_in_place) {
  PyRef snapshot = small_snapshot();
  const std::string expected = described(*read_object(snapshot));
  set(snapshot, "rank", py_int(3));
  const PyRef clutter =
      py_list({py_int(1), py_dict({{"a", py_none()}, {"b", py_bytes("xyz")}}), py_float(2.5)});
  for (const PyRef& event : at(snapshot, "device_traces")->items[0]->items)
    set(event, "forward_frames", clutter);
  for (const PyRef& segment : at(snapshot, "segments")->items) {
    set(segment, "numa_node", clutter);
    for (const PyRef& block : at(segment, "blocks")->items)
      set(block, "forward_frames", py_list({py_text("f")}));
  }
  EXPECT_EQ(described(*read_object(snapshot)), expected);

  at(snapshot, "device_traces")
      ->items[0]
      ->items.push_back(py_event("workspace_snapshot", kBase, 1));
  const auto store = read_object(snapshot);
  EXPECT_EQ(only_device(*store).events.size(), 7U);
  EXPECT_EQ(only_device(*store).events.action[6], Action::other);
}

// The stack that anomaly mode took of a forward operation, as torch 2.11 and later store it.
PyRef forward_frames() {
  return py_list({py_text("  File \"/train/main.py\", line 7, in main\n    loss = model(x)\n"),
                  py_text("  File \"/train/model.py\", line 41, in forward\n"
                          "    return self.head(x)\n           ^^^^^^^^^^^^\n")});
}

TEST(TorchVersions, lines_of_a_traceback_are_the_forward_stack_of_an_event) {
  for (int protocol = 1; protocol <= 5; ++protocol) {
    PyRef snapshot = small_snapshot();
    const auto& events = at(snapshot, "device_traces")->items[0]->items;
    const PyRef shared = forward_frames();
    for (const std::size_t event : {1U, 2U}) set(events[event], "forward_frames", shared);
    set(events[5], "forward_frames", forward_frames());
    const auto store = read_object(snapshot, protocol);
    const EventColumns& columns = only_device(*store).events;
    const std::string expected = " forward@/train/model.py:41 main@/train/main.py:7";
    for (const std::size_t event : {1U, 2U, 5U}) {
      EXPECT_EQ(described_stack(*store, columns.row(event).forward_stack), expected);
    }
    // The same as the stack of event 0, which is written frame by frame.
    EXPECT_EQ(columns.row(1).forward_stack, columns.row(0).stack);
    for (const std::size_t event : {0U, 3U, 4U})
      EXPECT_TRUE(columns.row(event).forward_stack.is_none());
    EXPECT_EQ(described_stack(*store, columns.row(2).stack), " main@/train/main.py:7");
  }
}

TEST(TorchVersions, a_snapshot_without_forward_stacks_has_no_column_of_them) {
  const auto store = read_object(small_snapshot());
  EXPECT_TRUE(only_device(*store).events.forward_stack.empty());
}

TEST(TorchVersions, what_is_no_line_of_a_traceback_is_passed_over) {
  PyRef snapshot = small_snapshot();
  PyRef lines = forward_frames();
  lines->items.insert(lines->items.begin() + 1, {py_int(3), py_text("Traceback:"), py_none(),
                                                 py_text(""), py_frame("f", "/train/x.py", 1)});
  const auto& events = at(snapshot, "device_traces")->items[0]->items;
  set(events[1], "forward_frames", lines);
  set(events[2], "forward_frames", py_text("  File \"a\", line 1, in f\n"));
  set(events[3], "forward_frames", at(events[3], "frames"));
  const auto store = read_object(snapshot);
  const EventColumns& columns = only_device(*store).events;
  EXPECT_EQ(described_stack(*store, columns.row(1).forward_stack),
            " forward@/train/model.py:41 main@/train/main.py:7");
  EXPECT_TRUE(columns.row(2).forward_stack.is_none());
}

TEST(TorchVersions, frames_of_generated_code_have_more_fields) {
  PyRef snapshot = small_snapshot();
  PyRef frame = py_frame("compiled", "/tmp/x.py", 3);
  for (const char* key : {"fx_node_op", "fx_node_name", "fx_node_target", "fx_original_trace"}) {
    set(frame, key, py_text("add"));
  }
  set(at(snapshot, "device_traces")->items[0]->items[1], "frames", py_list({frame}));
  const auto store = read_object(snapshot);
  EXPECT_EQ(described_stack(*store, only_device(*store).events.stack[1]), " compiled@/tmp/x.py:3");
}

TEST(TorchVersions, an_out_of_memory_event_tells_what_the_device_had_free) {
  PyRef oom = py_event("oom", 0, 1 << 30);
  erase(oom, "addr");
  set(oom, "device_free", py_int(12345));
  PyRef without = py_event("oom", 0, 1 << 30);
  erase(without, "addr");
  const auto store = read_object(py_snapshot({}, {py_list({oom, without})}));
  EXPECT_EQ(only_device(*store).events.action[0], Action::oom);
  EXPECT_EQ(only_device(*store).events.address[0], 12345U);
  EXPECT_EQ(only_device(*store).events.address[1], kUnknownBytes);
}

// torch.cuda._memory_viz._profile_to_snapshot: a category, and no address where the profiler did
// not know it.
TEST(TorchVersions, a_snapshot_made_from_a_profile_has_events_without_addresses) {
  PyRef nowhere = py_event("alloc", 0, 100);
  set(nowhere, "addr", py_none());
  set(nowhere, "category", py_text("PARAMETER"));
  PyRef somewhere = py_event("alloc", kBase, 100);
  set(somewhere, "category", py_none());
  const auto store = read_object(py_snapshot({}, {py_list({nowhere, somewhere})}));
  EXPECT_EQ(only_device(*store).events.action[0], Action::other);
  EXPECT_EQ(only_device(*store).events.action[1], Action::alloc);
}

TEST(TorchVersions, keys_may_come_in_any_order) {
  PyRef snapshot = small_snapshot();
  const std::string expected = described(*read_object(snapshot));
  const auto reversed = [](const PyRef& dict) {
    PyRef turned = py_dict();
    for (std::size_t index = dict->items.size(); index > 0; index -= 2) {
      turned->items.push_back(dict->items[index - 2]);
      turned->items.push_back(dict->items[index - 1]);
    }
    return turned;
  };
  for (PyRef& event : at(snapshot, "device_traces")->items[0]->items) event = reversed(event);
  for (PyRef& segment : at(snapshot, "segments")->items) {
    for (PyRef& block : at(segment, "blocks")->items) block = reversed(block);
    segment = reversed(segment);
  }
  set(snapshot, "allocator_settings", at(snapshot, "allocator_settings"));
  const auto store = read_object(reversed(snapshot));
  EXPECT_EQ(described(*store), expected);
}

}  // namespace
}  // namespace gpumemprof::test
