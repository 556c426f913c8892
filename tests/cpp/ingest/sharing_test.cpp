// What a pickle shares through its memo stays shared; what it repeats is not repeated in the store.
#include <gtest/gtest.h>

#include "ingest/small_snapshot.h"

namespace gpumemprof::test {
namespace {

class Sharing : public testing::TestWithParam<int> {};

TEST_P(Sharing, keeps_one_stack_for_events_that_share_their_frames) {
  PyRef snapshot = small_snapshot();
  const PyRef trace = at(snapshot, "device_traces")->items[0];
  const PyRef frames = at(trace->items[0], "frames");
  for (std::int64_t index = 0; index < 5000; ++index) {
    trace->items.push_back(py_event("alloc", kBase + 4096 + 512 * index, 512, frames));
  }
  const auto store = read_object(snapshot, GetParam());
  const auto& stacks = only_device(*store).events.stack;
  ASSERT_EQ(stacks.size(), 5006U);
  for (std::size_t event = 6; event < stacks.size(); ++event) ASSERT_EQ(stacks[event], stacks[0]);
  EXPECT_EQ(store->frames().size(), 2U);
  EXPECT_EQ(store->stacks().size(), 2U);  // main, and main ── forward
}

TEST_P(Sharing, gives_equal_frames_and_stacks_one_id_even_where_the_file_repeats_them) {
  PyRef snapshot = small_snapshot();
  const PyRef trace = at(snapshot, "device_traces")->items[0];
  for (std::int64_t index = 0; index < 300; ++index) {
    const PyRef fresh = py_list(
        {py_frame("forward", "/train/model.py", 41), py_frame("main", "/train/main.py", 7)});
    trace->items.push_back(py_event("alloc", kBase + 4096 + 512 * index, 512, fresh));
  }
  const auto store = read_object(snapshot, GetParam());
  EXPECT_EQ(only_device(*store).events.stack.back(), only_device(*store).events.stack[0]);
  EXPECT_EQ(store->frames().size(), 2U);
  EXPECT_EQ(store->stacks().size(), 2U);
}

TEST_P(Sharing, makes_separate_events_of_one_event_listed_several_times) {
  PyRef snapshot = small_snapshot();
  const PyRef trace = at(snapshot, "device_traces")->items[0];
  const PyRef repeated = trace->items[3];
  trace->items = {trace->items[0], repeated, trace->items[1], repeated, repeated, trace->items[2]};
  const auto store = read_object(snapshot, GetParam());
  const DeviceRecord& device = only_device(*store);
  ASSERT_EQ(device.events.size(), 6U);
  for (const std::size_t event : {1U, 3U, 4U})
    EXPECT_EQ(device.events.action[event], Action::free_requested);
  EXPECT_EQ(device.events.action[0], Action::segment_alloc);
  EXPECT_EQ(device.events.address[2], static_cast<std::uint64_t>(kBase));
  EXPECT_EQ(device.events.address[5], static_cast<std::uint64_t>(kBase) + 1024);
}

TEST_P(Sharing, tells_stacks_apart_that_differ_in_any_frame) {
  PyRef snapshot = small_snapshot();
  const PyRef trace = at(snapshot, "device_traces")->items[0];
  const PyRef a = py_frame("a", "/train/x.py", 1);
  const PyRef b = py_frame("b", "/train/x.py", 1);
  const std::vector<std::vector<PyRef>> stacks = {{a}, {b}, {a, b}, {b, a}, {a, a}, {a, b, a}, {}};
  trace->items.clear();
  for (const auto& frames : stacks)
    trace->items.push_back(py_event("alloc", kBase, 512, py_list(frames)));
  const auto store = read_object(snapshot, GetParam());
  const DeviceRecord& device = only_device(*store);
  for (std::size_t event = 0; event < stacks.size(); ++event) {
    std::string expected;
    for (const PyRef& frame : stacks[event])
      expected += " " + at(frame, "name")->text + "@/train/x.py:1";
    EXPECT_EQ(described_stack(*store, device.events.stack[event]), expected);
  }
}

// Events of the usual form take a fast path. An unknown field keeps an event off it.
TEST_P(Sharing, reads_the_same_with_and_without_the_shortcut) {
  const auto with_events = [](bool unusual) {
    PyRef snapshot = small_snapshot();
    const PyRef trace = at(snapshot, "device_traces")->items[0];
    const PyRef frames = at(trace->items[0], "frames");
    const PyRef deep = py_list();
    for (std::int64_t line = 0; line < 200; ++line)
      deep->items.push_back(py_frame("deep", "/train/deep.py", line));
    // Small and wide numbers in every position, missing frames, fresh and shared texts.
    for (std::int64_t index = 0; index < 400; ++index) {
      PyRef event = py_event(index % 3 == 0 ? "alloc" : "free_completed",
                             kBase + (index << (index % 50)), index * index,
                             index % 5 == 0   ? deep
                             : index % 7 == 0 ? nullptr
                                              : frames);
      set(event, "stream", py_int(index % 11 == 0 ? -1 : index << (index % 57)));
      if (index % 4 == 0) set(event, "pool_id", py_tuple({py_int(index), py_int(1)}));
      if (index % 2 == 0) erase(event, "pool_id");
      if (index % 13 == 0) set(event, "user_metadata", py_text("step " + std::to_string(index)));
      if (index % 17 == 0) erase(event, "time_us");
      if (unusual) set(event, "unheard_of", py_none());
      trace->items.push_back(event);
    }
    // Texts that repeat must be the same object, as they are in Python.
    std::vector<PyRef> texts;
    for (const PyRef& event : trace->items) {
      for (PyRef& item : event->items) {
        if (item->kind != Py::Kind::text) continue;
        for (const PyRef& known : texts) {
          if (known->text == item->text) item = known;
        }
        texts.push_back(item);
      }
    }
    return snapshot;
  };
  const auto usual = read_object(with_events(false), GetParam());
  EXPECT_EQ(only_device(*usual).events.size(), 406U);
  EXPECT_EQ(described(*usual), described(*read_object(with_events(true), GetParam())));
}

INSTANTIATE_TEST_SUITE_P(Pickle, Sharing, testing::Values(0, 2, 4, 5));

}  // namespace
}  // namespace gpumemprof::test
