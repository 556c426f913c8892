// What is written to a .gmp file is read back from it.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <random>

#include "event/rules/plausible.h"
#include "ingest/torch_snapshot.h"
#include "support.h"
#include "trace/format.h"

namespace gpumemprof::test {
namespace {

// The same calls that fill a trace, made on a store.
class Forward final : public EventSource {
 public:
  explicit Forward(const Bytes& bytes) : bytes_(bytes) {}
  Status deliver(EventSink& sink) override {
    return TraceReader::from_bytes(std::as_bytes(std::span(bytes_)), "test.gmp")
        .value()
        ->deliver(sink);
  }

 private:
  const Bytes& bytes_;
};

std::unique_ptr<Store> reread(const std::string& path) {
  auto store = std::make_unique<Store>();
  Result<std::unique_ptr<TraceReader>> reader = TraceReader::open(path);
  EXPECT_TRUE(reader);
  EXPECT_TRUE(reader.value()->deliver(*store));
  return store;
}

TEST(Trace, holds_every_kind_of_content) {
  Store direct;
  add_a_bit_of_everything(direct);
  const Opened opened = open_bytes(a_bit_of_everything());
  ASSERT_NE(opened.store, nullptr) << opened.refusal;
  EXPECT_FALSE(opened.store->origin().cut);
  EXPECT_EQ(ended(*opened.store), "exit 0");
  EXPECT_EQ(describe(*opened.store), describe(direct));
}

TEST(Trace, is_the_same_when_it_is_read_and_written_again) {
  const Bytes bytes = a_bit_of_everything();
  const TempFolder folder;
  const std::unique_ptr<TraceWriter> writer = open_writer(folder.file("again.gmp"));
  ASSERT_TRUE(Forward(bytes).deliver(*writer));
  ASSERT_TRUE(writer->close("exit 0"));
  EXPECT_EQ(describe(*reread(folder.file("again.gmp"))), describe(*open_bytes(bytes).store));
}

TEST(Trace, holds_every_recorded_snapshot_as_it_was) {
  const TempFolder folder;
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(GPUMEMPROF_TEST_DATA "/snapshots")) {
    const std::string path = entry.path().string();
    if (!path.ends_with(".pickle.gz")) continue;
    ++count;
    Store direct;
    ASSERT_TRUE(TorchSnapshot::open(path).value()->deliver(direct));
    const std::unique_ptr<TraceWriter> writer = open_writer(folder.file("snapshot.gmp"));
    ASSERT_TRUE(TorchSnapshot::open(path).value()->deliver(*writer));
    ASSERT_TRUE(writer->close("converted"));
    EXPECT_TRUE(describe(*reread(folder.file("snapshot.gmp"))) == describe(direct)) << path;
  }
  EXPECT_GE(count, 10U);
}

TEST(Trace, keeps_gpt2_training_with_stacks_within_three_bytes_an_event) {
  const TempFolder folder;
  const std::unique_ptr<TraceWriter> writer = open_writer(folder.file("gpt2.gmp"));
  ASSERT_TRUE(TorchSnapshot::open(GPUMEMPROF_TEST_DATA "/snapshots/gpt2_b4_fp32_adamw.pickle.gz")
                  .value()
                  ->deliver(*writer));
  ASSERT_TRUE(writer->close("converted"));
  EXPECT_LT(writer->size_bytes(), writer->event_count() * 3);
}

// A synthetic training loop with nanosecond times, in which nothing repeats except the pattern.
EventColumns training_events(std::size_t count, std::size_t stacks) {
  EventColumns events;
  std::mt19937_64 random(7);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> live;
  std::int64_t time = 1'700'000'000'000'000'000;
  while (events.size() < count) {
    const StackId stack(random() % stacks);
    time += 500 + static_cast<std::int64_t>(random() % 4000);
    if (live.size() < 400 || random() % 2 == 0) {
      const std::uint64_t size = 512 + 4 * (random() % 500);
      live.emplace_back(0x7f0000000000 + 512 * (random() % 100000), size);
      events.push_back(
          {Action::alloc, live.back().first, size, 0, time, stack, {}, {}, kNoPool, {}});
    } else {
      std::swap(live[random() % live.size()], live.back());
      const auto [address, size] = live.back();
      live.pop_back();
      events.push_back(
          {Action::free_requested, address, size, 0, time, stack, {}, {}, kNoPool, {}});
      events.push_back(
          {Action::free_completed, address, size, 0, time + 60, stack, {}, {}, kNoPool, {}});
    }
  }
  return events;
}

StackId add_stacks(TraceWriter& writer, std::size_t count) {
  StackId last;
  for (std::size_t index = 0; index < count; ++index) {
    const Frame frame{writer.add_string("f" + std::to_string(index % 50)),
                      writer.add_string("model.py"), static_cast<std::uint32_t>(index)};
    last = writer.add_stack(index % 30 == 0 ? StackId() : last, writer.add_frame(frame));
  }
  return last;
}

TEST(Trace, holds_three_million_events_as_they_were) {
  const TempFolder folder;
  const EventColumns events = training_events(3'000'000, 500);
  const std::unique_ptr<TraceWriter> writer = open_writer(folder.file("long.gmp"));
  add_stacks(*writer, 500);
  writer->append_events(0, events);
  ASSERT_TRUE(writer->close("exit 0"));
  // Random addresses, sizes, stacks and times: the worst case.
  EXPECT_LT(writer->size_bytes(), events.size() * 7);
  const std::unique_ptr<Store> store = reread(folder.file("long.gmp"));
  const EventColumns& back = store->devices().at(0)->events;
  EXPECT_TRUE(std::ranges::equal(back.action.span(), events.action.span()));
  EXPECT_TRUE(std::ranges::equal(back.address.span(), events.address.span()));
  EXPECT_TRUE(std::ranges::equal(back.size_bytes.span(), events.size_bytes.span()));
  EXPECT_TRUE(std::ranges::equal(back.stream.span(), events.stream.span()));
  EXPECT_TRUE(std::ranges::equal(back.time_ns.span(), events.time_ns.span()));
  EXPECT_TRUE(std::ranges::equal(back.stack.span(), events.stack.span()));
  EXPECT_TRUE(back.pool.empty());
}

TEST(Trace, does_not_depend_on_how_events_arrive) {
  const TempFolder folder;
  const EventColumns events = training_events(5000, 100);
  std::string expected;
  for (const std::size_t batch : {1UL, 7UL, 1000UL, 5000UL}) {
    const std::unique_ptr<TraceWriter> writer =
        open_writer(folder.file("batches.gmp"), {.events_per_block = 512});
    add_stacks(*writer, 100);
    for (std::size_t first = 0; first < events.size(); first += batch) {
      EventColumns part;
      part.append(events, first, std::min(batch, events.size() - first));
      writer->add_events(0, std::move(part));
      if (first % 3 == 0) {
        ASSERT_TRUE(writer->flush());
      }
    }
    ASSERT_TRUE(writer->close("exit 0"));
    const std::string text = describe_events(*reread(folder.file("batches.gmp")));
    if (expected.empty()) expected = text;
    EXPECT_TRUE(text == expected) << batch;
  }
}

TEST(Trace, holds_numbers_at_the_edges_of_their_range) {
  const TempFolder folder;
  const std::unique_ptr<TraceWriter> writer = open_writer(folder.file("edges.gmp"));
  const std::uint64_t values[] = {
      0, 1, 127, 128, 511, 1ULL << 31, (1ULL << 63) - 1, 1ULL << 63, ~0ULL - 1, ~0ULL};
  const std::int64_t times[] = {
      0, -1, 1, std::numeric_limits<std::int64_t>::max(), kUnknownTime + 1, kUnknownTime};
  EventColumns events;
  for (const Action action :
       {Action::alloc, Action::free_requested, Action::free_completed, Action::other}) {
    for (const std::uint64_t address : values) {
      for (const std::uint64_t size : values) {
        const std::int64_t time = times[events.size() % std::size(times)];
        events.push_back({action, address, size, 0, time, {}, {}, {}, kNoPool, {}});
      }
    }
  }
  writer->append_events(32767, events);
  ASSERT_TRUE(writer->close(""));
  const std::unique_ptr<Store> store = reread(folder.file("edges.gmp"));
  ASSERT_EQ(store->devices().at(0)->device, 32767);
  const EventColumns& back = store->devices()[0]->events;
  EXPECT_TRUE(std::ranges::equal(back.address.span(), events.address.span()));
  // Values that no device and no clock produces are cut or unknown once stored.
  EXPECT_TRUE(
      std::ranges::equal(back.size_bytes.span(), events.size_bytes.span(), {}, {}, plausible_size));
  EXPECT_TRUE(
      std::ranges::equal(back.time_ns.span(), events.time_ns.span(), {}, {}, plausible_time));
}

TEST(Trace, holds_a_segment_of_very_many_blocks) {
  const TempFolder folder;
  const std::unique_ptr<TraceWriter> writer = open_writer(folder.file("blocks.gmp"));
  std::vector<BlockState> blocks;
  std::mt19937_64 random(3);
  for (std::uint64_t address = 1 << 20; blocks.size() < 300'000; address += 512) {
    blocks.push_back({address, 512, random() % 512, static_cast<BlockStateKind>(random() % 3), {}});
  }
  const std::uint32_t stream = writer->add_stream(5);
  writer->add_segment(StateEdge::start,
                      {0, 1 << 20, 512ULL * blocks.size(), stream, kNoPool, true, false, {}},
                      blocks);
  writer->add_segment(StateEdge::start, {0, 1, 2, stream, kNoPool, true, false, {}}, {});
  ASSERT_TRUE(writer->close(""));
  const std::unique_ptr<Store> store = reread(folder.file("blocks.gmp"));
  const ListedState& state = store->devices().at(0)->start_state;
  ASSERT_EQ(state.segments.size(), 2U);
  ASSERT_EQ(state.blocks_of(0).size(), blocks.size());
  for (std::size_t index = 0; index < blocks.size(); index += 997) {
    EXPECT_EQ(state.blocks_of(0)[index].address, blocks[index].address);
    EXPECT_EQ(state.blocks_of(0)[index].requested_bytes, blocks[index].requested_bytes);
    EXPECT_EQ(state.blocks_of(0)[index].state, blocks[index].state);
  }
}

TEST(Trace, holds_many_and_long_texts) {
  const TempFolder folder;
  const std::unique_ptr<TraceWriter> writer = open_writer(folder.file("texts.gmp"));
  EventColumns events;
  for (std::size_t index = 0; index < 200'000; ++index) {
    Event event{Action::alloc, 512 * index, 512, 0, 0, {}, {}, {}, kNoPool, {}};
    event.user_metadata =
        writer->add_string("a label of some length, number " + std::to_string(index));
    events.push_back(event);
  }
  events.user_metadata[5] = writer->add_string(std::string(9 << 20, 'x'));
  writer->append_events(0, events);
  ASSERT_TRUE(writer->close(""));
  const std::unique_ptr<Store> store = reread(folder.file("texts.gmp"));
  const EventColumns& back = store->devices().at(0)->events;
  EXPECT_EQ(store->text(back.user_metadata[199'999]), "a label of some length, number 199999");
  EXPECT_EQ(store->text(back.user_metadata[5]).size(), trace::kMaxTextBytes);
}

TEST(Trace, makes_text_from_strangers_valid) {
  const TempFolder folder;
  const std::unique_ptr<TraceWriter> writer = open_writer(folder.file("latin1.gmp"));
  writer->add_annotation({writer->add_string("gr\xF6\xDF"
                                             "e"),
                          Annotation::Stage::start, 0, 1});
  ASSERT_TRUE(writer->close(""));
  const std::unique_ptr<Store> store = reread(folder.file("latin1.gmp"));
  EXPECT_EQ(store->text(store->annotations().at(0).name),
            "gr\xEF\xBF\xBD\xEF\xBF\xBD"
            "e");
}

}  // namespace
}  // namespace gpumemprof::test
