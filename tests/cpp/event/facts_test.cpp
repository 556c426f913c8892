// Facts with types: what each text fact becomes, and what becomes of texts that say nothing.
#include "event/facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace gpumemprof {
namespace {

Origin with_facts(std::vector<std::pair<std::string, std::string>> facts) {
  Origin origin;
  origin.facts = std::move(facts);
  return origin;
}

TEST(Facts, of_a_device_are_found_by_its_number) {
  const RecordingFacts facts(with_facts({{"device 1", "NVIDIA H200"},
                                         {"device 1 total_bytes", "150109880320"},
                                         {"device 1 memory_fraction", "0.25"},
                                         {"device 1 memory_fraction_at_end", "0.5"},
                                         {"device 1 num_alloc_retries", "2"},
                                         {"device 11 total_bytes", "7"}}));
  const DeviceFacts& device = facts.device(1);
  EXPECT_EQ(device.name, "NVIDIA H200");
  EXPECT_EQ(device.total_bytes, 150109880320U);
  EXPECT_EQ(device.memory_fraction, 0.25);
  EXPECT_EQ(device.memory_fraction_at_end, 0.5);
  EXPECT_EQ(device.alloc_retries, 2U);
  EXPECT_EQ(facts.device(11).total_bytes, 7U);
}

TEST(Facts, that_are_not_recorded_are_unknown) {
  const RecordingFacts facts(with_facts({{"device 0 total_bytes", "5"}}));
  EXPECT_EQ(facts.device(0).memory_fraction, std::nullopt);
  EXPECT_EQ(facts.device(0).peak_allocated_bytes, std::nullopt);
  EXPECT_EQ(facts.device(3).total_bytes, std::nullopt);
  EXPECT_EQ(facts.process().rank, std::nullopt);
  EXPECT_EQ(facts.process().host, "");
}

TEST(Facts, that_are_no_numbers_are_unknown) {
  const RecordingFacts facts(with_facts({{"device 0 total_bytes", "80 GiB"},
                                         {"device 0 memory_fraction", ""},
                                         {"device 0 memory_fraction_at_end", "nan"},
                                         {"device x total_bytes", "5"},
                                         {"device 99999 total_bytes", "5"},
                                         {"rank", "-1"},
                                         {"world_size", "99999999999999999999"}}));
  EXPECT_EQ(facts.device(0).total_bytes, std::nullopt);
  EXPECT_EQ(facts.device(0).memory_fraction, std::nullopt);
  ASSERT_TRUE(facts.device(0).memory_fraction_at_end);
  EXPECT_TRUE(std::isnan(*facts.device(0).memory_fraction_at_end));
  EXPECT_EQ(facts.process().rank, std::nullopt);
  EXPECT_EQ(facts.process().world_size, std::nullopt);
}

TEST(Facts, of_the_process_have_names) {
  const RecordingFacts facts(with_facts({{"gpumemprof", "0.2.0"},
                                         {"python", "3.11.2"},
                                         {"capture", "native"},
                                         {"forward_stacks", "on"}}));
  EXPECT_EQ(facts.process().gpumemprof, "0.2.0");
  EXPECT_EQ(facts.process().python, "3.11.2");
  EXPECT_EQ(facts.process().capture_mode, "native");
  EXPECT_TRUE(facts.process().has_forward_stacks);
  EXPECT_FALSE(
      RecordingFacts(with_facts({{"forward_stacks", "off"}})).process().has_forward_stacks);
}

TEST(Facts, of_one_name_count_once) {
  const RecordingFacts facts(
      with_facts({{"host", "one"}, {"host", "two"}, {"pid", "1"}, {"pid", "2"}}));
  EXPECT_EQ(facts.process().host, "one");
  EXPECT_EQ(facts.process().pid, 1U);
}

TEST(Facts, of_the_process_have_types) {
  const RecordingFacts facts(with_facts({{"host", "node-3"},
                                         {"pid", "4711"},
                                         {"command", "train.py --steps 3"},
                                         {"torch", "2.11.0+cu130"},
                                         {"rank", "5"},
                                         {"local_rank", "1"},
                                         {"world_size", "8"},
                                         {"mesh dp", "2"},
                                         {"mesh tp", "1"},
                                         {"parameter_bytes bfloat16", "4096"}}));
  const ProcessFacts& process = facts.process();
  EXPECT_EQ(process.host, "node-3");
  EXPECT_EQ(process.pid, 4711U);
  EXPECT_EQ(process.command, "train.py --steps 3");
  EXPECT_EQ(process.torch, "2.11.0+cu130");
  EXPECT_EQ(process.rank, 5U);
  EXPECT_EQ(process.local_rank, 1U);
  EXPECT_EQ(process.world_size, 8U);
  EXPECT_THAT(process.mesh_coordinates,
              ::testing::ElementsAre(::testing::Pair("dp", 2U), ::testing::Pair("tp", 1U)));
  EXPECT_THAT(process.parameter_bytes, ::testing::ElementsAre(::testing::Pair("bfloat16", 4096U)));
}

TEST(Facts, say_that_only_cpu_memory_has_no_pool) {
  Origin origin;
  EXPECT_EQ(RecordingFacts(origin).kind(), DeviceKind::cuda);
  EXPECT_TRUE(RecordingFacts(origin).device(0).has_pool);
  origin.device_type = "xpu";
  EXPECT_EQ(RecordingFacts(origin).kind(), DeviceKind::other);
  EXPECT_TRUE(RecordingFacts(origin).has_pool());
  origin.device_type = "cpu";
  origin.facts = {{"device 0", "a CPU"}};
  EXPECT_EQ(RecordingFacts(origin).device(0).kind, DeviceKind::cpu);
  EXPECT_FALSE(RecordingFacts(origin).device(0).has_pool);
  EXPECT_FALSE(RecordingFacts(origin).has_pool());
}

}  // namespace
}  // namespace gpumemprof
