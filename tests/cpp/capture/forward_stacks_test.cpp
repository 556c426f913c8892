#include "capture/forward_stacks.h"

#include <gtest/gtest.h>

namespace gpumemprof::capture {
namespace {

StackId stack(std::uint32_t number) { return StackId{number}; }

TEST(ForwardStacks, TellsWhereTheRunningNodeWasMade) {
  ForwardStacks stacks;
  stacks.made({5, 1}, stack(10));
  stacks.made({6, 1}, stack(11));
  stacks.runs(3, {6, 1});
  EXPECT_EQ(stacks.of(3), stack(11));
  stacks.runs(3, {5, 1});
  EXPECT_EQ(stacks.of(3), stack(10));
  EXPECT_TRUE(stacks.of(4).is_none());
}

TEST(ForwardStacks, TellsNothingOnceTheThreadRunsNoNode) {
  ForwardStacks stacks;
  stacks.made({5, 1}, stack(10));
  stacks.runs(0, {5, 1});
  stacks.runs(0, {});
  EXPECT_TRUE(stacks.of(0).is_none());
}

TEST(ForwardStacks, KeepsNodesOfTwoThreadsApart) {
  ForwardStacks stacks;
  stacks.made({5, 1}, stack(10));
  stacks.made({5, 2}, stack(20));
  stacks.runs(0, {5, 1});
  stacks.runs(1, {5, 2});
  stacks.runs(2, {5, 3});
  EXPECT_EQ(stacks.of(0), stack(10));
  EXPECT_EQ(stacks.of(1), stack(20));
  EXPECT_TRUE(stacks.of(2).is_none());
}

TEST(ForwardStacks, ANodeThatWasDisplacedHasNoStackRatherThanAnothers) {
  ForwardStacks stacks;
  for (std::uint64_t sequence = 0; sequence <= ForwardStacks::kNodes; ++sequence)
    stacks.made({sequence, 1}, stack(static_cast<std::uint32_t>(sequence)));
  stacks.runs(0, {0, 1});
  EXPECT_TRUE(stacks.of(0).is_none());
  stacks.runs(0, {1, 1});
  EXPECT_EQ(stacks.of(0), stack(1));
  stacks.runs(0, {ForwardStacks::kNodes, 1});
  EXPECT_EQ(stacks.of(0), stack(ForwardStacks::kNodes));
}

}  // namespace
}  // namespace gpumemprof::capture
