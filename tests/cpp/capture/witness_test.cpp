#include "capture/witness.h"

#include <gtest/gtest.h>

namespace gpumemprof::capture {
namespace {

constexpr std::uint64_t kFirst = 0x7f00'0000'0000;
constexpr std::uint64_t kSecond = kFirst + 0x1000;

ListedSegment segment(std::initializer_list<ListedBlock> blocks, DeviceIndex device = 0) {
  ListedSegment listed;
  listed.device = device;
  listed.address = kFirst;
  listed.blocks = blocks;
  return listed;
}

ListedBlock allocated(std::uint64_t address, std::uint64_t requested_bytes) {
  return {address, 512, requested_bytes, BlockStateKind::active_allocated};
}

TEST(Witness, AgreesWhenEventsAddUpToTheList) {
  Witness witness;
  witness.begin({segment({allocated(kFirst, 100)})});
  witness.take(0, Action::free_requested, kFirst, 100);
  witness.take(0, Action::free_completed, kFirst, 100);
  witness.take(0, Action::alloc, kSecond, 200);
  witness.freeze(0);
  EXPECT_EQ(witness.contradiction({segment({allocated(kSecond, 200)})}), std::nullopt);
}

TEST(Witness, EventsBetweenTheListAndItsArrivalCount) {
  Witness witness;
  witness.take(0, Action::free_requested, kFirst, 100);
  witness.take(0, Action::alloc, kSecond, 200);
  witness.begin({segment({allocated(kFirst, 100)})});
  witness.freeze(0);
  EXPECT_EQ(witness.contradiction({segment({allocated(kSecond, 200)})}), std::nullopt);
}

TEST(Witness, WhatHappensAfterTheListDoesNotCount) {
  Witness witness;
  witness.begin({});
  witness.take(0, Action::alloc, kFirst, 100);
  witness.freeze(0);
  witness.take(0, Action::free_requested, kFirst, 100);
  EXPECT_EQ(witness.contradiction({segment({allocated(kFirst, 100)})}), std::nullopt);
}

TEST(Witness, BlocksThatAwaitAStreamAreNotAllocated) {
  Witness witness;
  witness.begin({});
  witness.take(0, Action::alloc, kFirst, 100);
  witness.take(0, Action::free_requested, kFirst, 100);
  witness.freeze(0);
  EXPECT_EQ(
      witness.contradiction({segment({{kFirst, 512, 100, BlockStateKind::active_pending_free}})}),
      std::nullopt);
}

struct Wrong {
  const char* what;
  std::uint8_t device;
  std::uint64_t address;
  std::uint64_t size_bytes;
};

class WitnessOf : public testing::TestWithParam<Wrong> {};

TEST_P(WitnessOf, AWrongFieldContradicts) {
  const Wrong& wrong = GetParam();
  Witness witness;
  witness.begin({});
  witness.take(wrong.device, Action::alloc, wrong.address, wrong.size_bytes);
  witness.freeze(0);
  witness.freeze(1);
  EXPECT_NE(witness.contradiction({segment({allocated(kFirst, 100)})}), std::nullopt);
}

INSTANTIATE_TEST_SUITE_P(Fields, WitnessOf,
                         testing::Values(Wrong{"address", 0, kSecond, 100},
                                         Wrong{"size", 0, kFirst, 101},
                                         Wrong{"device", 1, kFirst, 100}),
                         [](const auto& one) { return std::string(one.param.what); });

TEST(Witness, AMissingOrExtraBlockContradicts) {
  Witness witness;
  witness.begin({});
  witness.take(0, Action::alloc, kFirst, 100);
  witness.freeze(0);
  EXPECT_NE(witness.contradiction({}), std::nullopt);
  EXPECT_NE(witness.contradiction({segment({allocated(kFirst, 100), allocated(kSecond, 1)})}),
            std::nullopt);
}

}  // namespace
}  // namespace gpumemprof::capture
