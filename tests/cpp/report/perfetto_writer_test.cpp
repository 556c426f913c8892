// Packets of a Perfetto trace, read back field by field.
#include "report/perfetto/perfetto_writer.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <protozero/pbf_reader.hpp>
#include <set>
#include <sstream>

namespace gpumemprof {
namespace {

class PerfettoPackets : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = std::filesystem::temp_directory_path() /
            ("perfetto_" + std::to_string(::testing::UnitTest::GetInstance()->random_seed()));
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

// The numbers of all interned call stacks, and those that events use.
struct UsedStacks {
  std::multiset<std::uint64_t> interned;
  std::vector<std::uint64_t> used;
  std::vector<std::int64_t> counters;
  std::size_t packets = 0;
};

UsedStacks read_stacks(const std::string& bytes) {
  UsedStacks read;
  protozero::pbf_reader trace(bytes);
  while (trace.next(1)) {
    ++read.packets;
    protozero::pbf_reader packet = trace.get_message();
    while (packet.next()) {
      if (packet.tag() == 12) {
        protozero::pbf_reader interned = packet.get_message();
        while (interned.next()) {
          if (interned.tag() != 7) {
            interned.skip();
            continue;
          }
          protozero::pbf_reader callstack = interned.get_message();
          while (callstack.next()) {
            const std::uint64_t value = callstack.get_uint64();
            if (callstack.tag() == 1) read.interned.insert(value);
          }
        }
      } else if (packet.tag() == 11) {
        protozero::pbf_reader event = packet.get_message();
        while (event.next()) {
          if (event.tag() == 56) {
            read.used.push_back(event.get_uint64());
          } else if (event.tag() == 12) {
            read.counters.push_back(event.get_int64());
          } else {
            event.skip();
          }
        }
      } else {
        packet.skip();
      }
    }
  }
  return read;
}

TEST_F(PerfettoPackets, a_stack_is_written_once_and_before_its_use) {
  const StackId main = store_.add_stack(
      {}, store_.add_frame({store_.add_string("main"), store_.add_string("/p/train.py"), 3}));
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
  const UsedStacks read = read_stacks(bytes());
  EXPECT_EQ(read.used, (std::vector<std::uint64_t>{1, 1, 1, 2, 3}));
  EXPECT_EQ(read.interned, (std::multiset<std::uint64_t>{1, 2, 3}));
  EXPECT_EQ(read.counters, (std::vector<std::int64_t>{512, 1024, 1536, 1536, 1536}));
  EXPECT_EQ(read.packets, 5U);
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
