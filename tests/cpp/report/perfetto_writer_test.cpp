// Packets of a Perfetto trace, read back field by field.
#include "report/perfetto/perfetto_writer.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <protozero/pbf_reader.hpp>
#include <set>
#include <sstream>

#include "report/perfetto/memory_trace.h"

namespace gpumemprof {
namespace {

class PerfettoPackets : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = std::filesystem::temp_directory_path() / ("perfetto_" + std::to_string(::getpid()));
  }
  void TearDown() override { std::filesystem::remove(path_); }

  std::unique_ptr<FileSink> file() {
    return std::move(FileSink::create(path_.string(), FileSink::Existing::replace,
                                      FileSink::Appears::when_closed))
        .value();
  }
  [[nodiscard]] std::string bytes() const {
    std::ostringstream read;
    read << std::ifstream(path_, std::ios::binary).rdbuf();
    return read.str();
  }

  std::filesystem::path path_;
  Store store_;
};

// The texts that are interned for notes, those of the notes called "stack" in order, and every
// field that events have.
struct ReadEvents {
  std::map<std::uint64_t, std::string> texts;
  std::vector<std::string> stacks;
  std::set<std::uint32_t> fields;
  std::vector<std::int64_t> counters;
  std::size_t packets = 0;
};

std::pair<std::uint64_t, std::string> read_text(protozero::pbf_reader text) {
  std::pair<std::uint64_t, std::string> read;
  while (text.next()) {
    if (text.tag() == 1) {
      read.first = text.get_uint64();
    } else {
      read.second = text.get_string();
    }
  }
  return read;
}

// A note's name and text, by their numbers; 0: none.
std::pair<std::uint64_t, std::uint64_t> read_note(protozero::pbf_reader note) {
  std::pair<std::uint64_t, std::uint64_t> read;
  while (note.next()) {
    const std::uint64_t value = note.get_uint64();
    if (note.tag() == 1) read.first = value;
    if (note.tag() == 17) read.second = value;
  }
  return read;
}

void read_event(protozero::pbf_reader event, std::uint64_t stack_name, ReadEvents& read) {
  while (event.next()) {
    read.fields.insert(event.tag());
    if (event.tag() == 4) {
      const auto [name, text] = read_note(event.get_message());
      if (name == stack_name) read.stacks.push_back(read.texts.at(text));
    } else if (event.tag() == 12) {
      read.counters.push_back(event.get_int64());
    } else {
      event.skip();
    }
  }
}

ReadEvents read_events(const std::string& bytes) {
  ReadEvents read;
  std::uint64_t stack_name = 0;
  protozero::pbf_reader trace(bytes);
  while (trace.next(1)) {
    ++read.packets;
    const protozero::data_view packet = trace.get_view();
    for (protozero::pbf_reader fields(packet); fields.next(12);) {
      protozero::pbf_reader interned = fields.get_message();
      while (interned.next()) {
        const auto [id, text] = interned.tag() == 29 || interned.tag() == 3
                                    ? read_text(interned.get_message())
                                    : (interned.skip(), std::pair<std::uint64_t, std::string>());
        if (interned.tag() == 3 && text == "stack") stack_name = id;
        const bool is_known = interned.tag() == 29 && !read.texts.emplace(id, text).second;
        EXPECT_FALSE(is_known) << text;
      }
    }
    for (protozero::pbf_reader fields(packet); fields.next(11);)
      read_event(fields.get_message(), stack_name, read);
  }
  return read;
}

// The times at which slices begin.
std::vector<std::uint64_t> read_begins(const std::string& bytes) {
  std::vector<std::uint64_t> begins;
  for (protozero::pbf_reader trace(bytes); trace.next(1);) {
    const protozero::data_view packet = trace.get_view();
    std::uint64_t time_ns = 0;
    for (protozero::pbf_reader fields(packet); fields.next(8);) time_ns = fields.get_uint64();
    for (protozero::pbf_reader fields(packet); fields.next(11);) {
      for (protozero::pbf_reader event = fields.get_message(); event.next(9);) {
        if (event.get_enum() == 1) begins.push_back(time_ns);
      }
    }
  }
  return begins;
}

TEST_F(PerfettoPackets, of_events_lost_before_the_first_are_where_that_is) {
  MemoryTrace trace(file(), store_, {}, 0);
  LostEvents before;
  before.count = 3;
  LostEvents later = before;
  later.first_time_ns = 7000;
  trace.add_device({0, true, {before, later}, 5000});
  ASSERT_TRUE(trace.finish({}));
  EXPECT_EQ(read_begins(bytes()), (std::vector<std::uint64_t>{5000, 7000}));
}

class PerfettoAllocations : public PerfettoPackets {
 protected:
  StackId below(StackId caller, const std::string& name, std::uint32_t line) {
    return store_.add_stack(caller, store_.add_frame({store_.add_string(name),
                                                      store_.add_string("/p/train.py"), line}));
  }
};

TEST_F(PerfettoAllocations, a_stack_is_written_once_and_before_its_use) {
  const StackId main = below(below({}, "<module>", 9), "main", 3);
  PerfettoWriter writer(file(), store_);
  PerfettoWriter::Allocation allocation;
  allocation.source = "activations";
  allocation.stack = main;
  for (std::int64_t time = 0; time < 3; ++time) {
    allocation.time_ns = time;
    allocation.counters = {{70, 512 * static_cast<std::uint64_t>(time + 1)}};
    writer.add_allocation(allocation);
  }
  allocation.is_backward = true;
  writer.add_allocation(allocation);
  allocation.stack = {};
  writer.add_allocation(allocation);
  ASSERT_TRUE(writer.finish());
  const ReadEvents read = read_events(bytes());
  const std::string line = "main (/p/train.py:3) < <module> (/p/train.py:9)";
  EXPECT_EQ(read.stacks,
            (std::vector<std::string>{line, line, line, "[backward] < " + line, "[no stack]"}));
  EXPECT_EQ(read.counters, (std::vector<std::int64_t>{512, 1024, 1536, 1536, 1536}));
  EXPECT_EQ(read.packets, 5U);
}

TEST_F(PerfettoAllocations, a_deep_stack_has_all_its_frames) {
  constexpr std::uint32_t kDepth = 300;
  StackId stack;
  for (std::uint32_t line = 1; line <= kDepth; ++line) stack = below(stack, "f", line);
  PerfettoWriter writer(file(), store_);
  PerfettoWriter::Allocation allocation;
  allocation.source = "activations";
  allocation.stack = stack;
  writer.add_allocation(allocation);
  ASSERT_TRUE(writer.finish());
  std::string expected;
  for (std::uint32_t line = kDepth; line > 0; --line)
    expected +=
        (expected.empty() ? "f (/p/train.py:" : " < f (/p/train.py:") + std::to_string(line) + ")";
  EXPECT_EQ(read_events(bytes()).stacks, std::vector<std::string>{expected});
}

// Readers count a field that they do not know as an error, which the UI shows.
TEST_F(PerfettoAllocations, an_event_has_only_fields_that_released_readers_know) {
  PerfettoWriter writer(file(), store_);
  PerfettoWriter::Allocation allocation;
  allocation.source = "activations";
  allocation.stack = below({}, "main", 3);
  allocation.name = "weight";
  allocation.tag = "mine";
  allocation.counters = {{70, 512}};
  writer.add_allocation(allocation);
  writer.begin_slice(71, 1, "step 1");
  writer.end_slice(71, 2);
  writer.add_counter(70, 3, 4);
  writer.add_instant(71, 4, "about", {{"figures", "measured"}});
  ASSERT_TRUE(writer.finish());
  EXPECT_EQ(read_events(bytes()).fields, (std::set<std::uint32_t>{4, 9, 10, 11, 12, 30, 31}));
}

struct HeapDump {
  std::string heap;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> samples;  // stack and allocated bytes
};

HeapDump read_dump(protozero::pbf_reader dump) {
  HeapDump read;
  while (dump.next()) {
    if (dump.tag() == 11) {
      read.heap = dump.get_string();
    } else if (dump.tag() == 2) {
      protozero::pbf_reader sample = dump.get_message();
      std::pair<std::uint64_t, std::uint64_t> values;
      while (sample.next()) {
        const std::uint64_t value = sample.get_uint64();
        if (sample.tag() == 1) values.first = value;
        if (sample.tag() == 2) values.second = value;
      }
      read.samples.push_back(values);
    } else {
      dump.skip();
    }
  }
  return read;
}

std::vector<HeapDump> read_dumps(const std::string& bytes) {
  std::vector<HeapDump> dumps;
  protozero::pbf_reader trace(bytes);
  while (trace.next(1)) {
    protozero::pbf_reader packet = trace.get_message();
    while (packet.next(37)) {
      protozero::pbf_reader profile = packet.get_message();
      while (profile.next(5)) dumps.push_back(read_dump(profile.get_message()));
    }
  }
  return dumps;
}

TEST_F(PerfettoPackets, a_heap_has_one_sample_for_each_stack_and_shares_none_with_another) {
  const StackId main = store_.add_stack(
      {}, store_.add_frame({store_.add_string("main"), store_.add_string("/p/train.py"), 3}));
  PerfettoWriter writer(file(), store_);
  // The same stack twice, as memory of two sources has it.
  const std::vector<PerfettoWriter::HeapSample> samples = {{main, false, 1, 100, 1, 100},
                                                           {{}, true, 1, 1, 1, 1},
                                                           {main, false, 2, 20, 1, 10},
                                                           {main, true, 1, 5, 1, 5},
                                                           {{}, false, 1, 2, 1, 2}};
  writer.add_heap_profiles(
      1, {{"cuda:0 at the peak", 6, samples}, {"cuda:1 at the peak", 5, samples}});
  ASSERT_TRUE(writer.finish());
  const std::vector<HeapDump> dumps = read_dumps(bytes());
  ASSERT_EQ(dumps.size(), 2U);
  std::set<std::uint64_t> stacks;
  for (const HeapDump& dump : dumps) {
    std::multiset<std::uint64_t> sizes;
    for (const auto& [stack, allocated] : dump.samples) {
      EXPECT_TRUE(stacks.insert(stack).second);
      sizes.insert(allocated);
    }
    EXPECT_EQ(sizes, (std::multiset<std::uint64_t>{3, 5, 120}));
  }
}

TEST_F(PerfettoPackets, a_full_disk_is_reported) {
  PerfettoWriter writer(std::move(FileSink::create("/dev/full", FileSink::Existing::replace,
                                                   FileSink::Appears::when_closed))
                            .value(),
                        store_);
  writer.add_counter(70, 1, 2);
  EXPECT_FALSE(writer.finish());
}

}  // namespace
}  // namespace gpumemprof
