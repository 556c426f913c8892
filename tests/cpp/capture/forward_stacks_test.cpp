#include "capture/stacks/forward_stacks.h"

#include <gtest/gtest.h>

namespace gpumemprof::capture {
namespace {

StackId stack(std::uint32_t number) { return StackId{number}; }

TEST(ForwardStacks, TellsWhereTheRunningNodeWasMade) {
  ForwardStacks stacks;
  stacks.made(0, {5, 1}, 0, stack(10));
  stacks.made(0, {6, 1}, 6, stack(11));
  stacks.runs(3, {6, 1});
  EXPECT_EQ(stacks.of(3), stack(11));
  stacks.runs(3, {5, 1});
  EXPECT_EQ(stacks.of(3), stack(10));
  EXPECT_TRUE(stacks.of(4).is_none());
}

TEST(ForwardStacks, NodesThatFollowAreMadeThereToo) {
  ForwardStacks stacks;
  stacks.made(0, {5, 1}, 0, stack(10));
  stacks.runs(3, {7, 1});
  EXPECT_EQ(stacks.of(3), stack(10));
  stacks.made(0, {8, 1}, 8, stack(11));
  stacks.runs(3, {7, 1});
  EXPECT_EQ(stacks.of(3), stack(10));
  stacks.runs(3, {4, 1});
  EXPECT_TRUE(stacks.of(3).is_none());
}

TEST(ForwardStacks, NodesThatNobodyNotedHaveNoStack) {
  ForwardStacks stacks;
  stacks.made(0, {5, 1}, 0, stack(10));
  stacks.made(0, {20, 1}, 8, stack(11));
  stacks.runs(3, {7, 1});
  EXPECT_EQ(stacks.of(3), stack(10));
  stacks.runs(3, {8, 1});
  EXPECT_TRUE(stacks.of(3).is_none());
  stacks.runs(3, {20, 1});
  EXPECT_EQ(stacks.of(3), stack(11));
}

TEST(ForwardStacks, ANewEpochClosesWhatWasOpen) {
  ForwardStacks stacks;
  stacks.made(0, {5, 1}, 0, stack(10));
  stacks.made(0, {8, 1}, 8, stack(11));
  stacks.enter_epoch(1);
  stacks.runs(3, {9, 1});
  EXPECT_TRUE(stacks.of(3).is_none());
  stacks.runs(3, {7, 1});
  EXPECT_EQ(stacks.of(3), stack(10));
}

TEST(ForwardStacks, TellsNothingOnceTheThreadRunsNoNode) {
  ForwardStacks stacks;
  stacks.made(0, {5, 1}, 0, stack(10));
  stacks.runs(0, {5, 1});
  stacks.runs(0, {});
  EXPECT_TRUE(stacks.of(0).is_none());
}

TEST(ForwardStacks, KeepsNodesOfTwoThreadsApart) {
  ForwardStacks stacks;
  stacks.made(0, {5, 1}, 0, stack(10));
  stacks.made(1, {5, 2}, 0, stack(20));
  stacks.runs(0, {5, 1});
  stacks.runs(1, {5, 2});
  stacks.runs(2, {5, 3});
  EXPECT_EQ(stacks.of(0), stack(10));
  EXPECT_EQ(stacks.of(1), stack(20));
  EXPECT_TRUE(stacks.of(2).is_none());
}

TEST(ForwardStacks, AThreadThatTakesTheSlotOfADeadOneLeavesItsNodesAsTheyWere) {
  ForwardStacks stacks;
  stacks.made(0, {5, 1}, 0, stack(10));
  stacks.made(0, {0, 2}, 7, stack(20));
  stacks.runs(3, {6, 1});
  EXPECT_EQ(stacks.of(3), stack(10));
  stacks.runs(3, {7, 1});
  EXPECT_TRUE(stacks.of(3).is_none());
  stacks.runs(3, {1, 2});
  EXPECT_EQ(stacks.of(3), stack(20));
}

TEST(ForwardStacks, ANodeThatWasDisplacedHasNoStackRatherThanAnothers) {
  ForwardStacks stacks;
  for (std::uint64_t sequence = 0; sequence <= ForwardStacks::kNodes + 1; ++sequence)
    stacks.made(0, {sequence, 1}, sequence, stack(static_cast<std::uint32_t>(sequence)));
  stacks.runs(0, {0, 1});
  EXPECT_TRUE(stacks.of(0).is_none());
  stacks.runs(0, {1, 1});
  EXPECT_EQ(stacks.of(0), stack(1));
  stacks.runs(0, {ForwardStacks::kNodes, 1});
  EXPECT_EQ(stacks.of(0), stack(ForwardStacks::kNodes));
}

TEST(ForwardStacks, MoreNodesInOnePlaceThanTheTableHoldsAreStillFound) {
  ForwardStacks stacks;
  constexpr std::uint64_t kMany = 3 * ForwardStacks::kNodes;
  stacks.made(0, {0, 1}, 0, stack(10));
  stacks.made(0, {kMany, 1}, kMany, stack(11));
  stacks.runs(0, {kMany - 1, 1});
  EXPECT_EQ(stacks.of(0), stack(10));
  stacks.runs(0, {0, 1});
  EXPECT_TRUE(stacks.of(0).is_none());
}

}  // namespace
}  // namespace gpumemprof::capture
