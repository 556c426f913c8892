#include "capture/output/self_test.h"

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

TEST(SelfTest, AgreesWhenEventsAddUpToTheList) {
  SelfTest self_test;
  self_test.begin({segment({allocated(kFirst, 100)})});
  self_test.take(0, Action::free_requested, kFirst, 100);
  self_test.take(0, Action::free_completed, kFirst, 100);
  self_test.take(0, Action::alloc, kSecond, 200);
  self_test.freeze(0);
  EXPECT_EQ(self_test.contradiction({segment({allocated(kSecond, 200)})}), std::nullopt);
}

TEST(SelfTest, EventsBetweenTheListAndItsArrivalCount) {
  SelfTest self_test;
  self_test.take(0, Action::free_requested, kFirst, 100);
  self_test.take(0, Action::alloc, kSecond, 200);
  self_test.begin({segment({allocated(kFirst, 100)})});
  self_test.freeze(0);
  EXPECT_EQ(self_test.contradiction({segment({allocated(kSecond, 200)})}), std::nullopt);
}

TEST(SelfTest, WhatHappensAfterTheListDoesNotCount) {
  SelfTest self_test;
  self_test.begin({});
  self_test.take(0, Action::alloc, kFirst, 100);
  self_test.freeze(0);
  self_test.take(0, Action::free_requested, kFirst, 100);
  EXPECT_EQ(self_test.contradiction({segment({allocated(kFirst, 100)})}), std::nullopt);
}

TEST(SelfTest, BlocksThatAwaitAStreamAreNotAllocated) {
  SelfTest self_test;
  self_test.begin({});
  self_test.take(0, Action::alloc, kFirst, 100);
  self_test.take(0, Action::free_requested, kFirst, 100);
  self_test.freeze(0);
  EXPECT_EQ(
      self_test.contradiction({segment({{kFirst, 512, 100, BlockStateKind::active_pending_free}})}),
      std::nullopt);
}

struct Wrong {
  const char* what;
  std::uint8_t device;
  std::uint64_t address;
  std::uint64_t size_bytes;
};

class SelfTestOf : public testing::TestWithParam<Wrong> {};

TEST_P(SelfTestOf, AWrongFieldContradicts) {
  const Wrong& wrong = GetParam();
  SelfTest self_test;
  self_test.begin({});
  self_test.take(wrong.device, Action::alloc, wrong.address, wrong.size_bytes);
  self_test.freeze(0);
  self_test.freeze(1);
  EXPECT_NE(self_test.contradiction({segment({allocated(kFirst, 100)})}), std::nullopt);
}

INSTANTIATE_TEST_SUITE_P(Fields, SelfTestOf,
                         testing::Values(Wrong{"address", 0, kSecond, 100},
                                         Wrong{"size", 0, kFirst, 101},
                                         Wrong{"device", 1, kFirst, 100}),
                         [](const auto& one) { return std::string(one.param.what); });

TEST(SelfTest, AMissingOrExtraBlockContradicts) {
  SelfTest self_test;
  self_test.begin({});
  self_test.take(0, Action::alloc, kFirst, 100);
  self_test.freeze(0);
  EXPECT_NE(self_test.contradiction({}), std::nullopt);
  EXPECT_NE(self_test.contradiction({segment({allocated(kFirst, 100), allocated(kSecond, 1)})}),
            std::nullopt);
}

}  // namespace
}  // namespace gpumemprof::capture
