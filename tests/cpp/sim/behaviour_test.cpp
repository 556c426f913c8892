// What must hold under every setting.
#include <gtest/gtest.h>

#include "sim/allocator/allocator.h"
#include "sim/settings_under_test.h"

namespace gpumemprof::sim {
namespace {

class BehaviourTest : public testing::TestWithParam<TestedSettings> {
 protected:
  Allocator make(MemoryLimit limit = {}) {
    Allocator allocator({settings_of(GetParam()), rules_for(GetParam().version), limit, 80 * kGiB},
                        addresses_);
    allocator.add_stream_pool({0, kDefaultPool});
    allocator.add_stream_pool({1, kDefaultPool});
    allocator.add_pool(PoolKind::user);
    allocator.add_stream_pool({0, PoolIndex(1)});
    return allocator;
  }

  static constexpr StreamPoolId kStream0{std::size_t{0}};
  static constexpr StreamPoolId kStream1{std::size_t{1}};
  static constexpr StreamPoolId kPrivate{std::size_t{2}};
  static AllocationId id(std::size_t index) { return AllocationId(index); }

  RisingAddresses addresses_;
};

TEST_P(BehaviourTest, a_block_is_at_least_as_large_as_the_request_and_a_multiple_of_512) {
  Allocator allocator = make();
  std::size_t next = 0;
  for (std::uint64_t bytes = 1; bytes < 300 * kMiB; bytes = bytes * 5 / 3 + 1) {
    ASSERT_TRUE(allocator.allocate(id(next), bytes, kStream0));
    const Placement placement = allocator.placement(id(next));
    EXPECT_GE(placement.block_bytes, bytes);
    EXPECT_EQ(placement.block_bytes % kMinBlockBytes, 0U);
    EXPECT_EQ(placement.address % kMinBlockBytes, 0U);
    ++next;
  }
}

TEST_P(BehaviourTest, live_blocks_never_overlap) {
  Allocator allocator = make();
  std::vector<Placement> placements;
  for (std::size_t n = 0; n < 40; ++n) {
    ASSERT_TRUE(allocator.allocate(id(n), (n * 37 % 23 + 1) * 700'000, kStream0));
    placements.push_back(allocator.placement(id(n)));
  }
  for (std::size_t a = 0; a < placements.size(); ++a) {
    for (std::size_t b = a + 1; b < placements.size(); ++b) {
      const Placement& low =
          placements[a].address < placements[b].address ? placements[a] : placements[b];
      const Placement& high =
          placements[a].address < placements[b].address ? placements[b] : placements[a];
      EXPECT_LE(low.address + low.block_bytes, high.address);
    }
  }
}

TEST_P(BehaviourTest, a_freed_block_serves_the_same_request_again) {
  Allocator allocator = make();
  ASSERT_TRUE(allocator.allocate(id(0), 30 * kMiB, kStream0));
  const Placement first = allocator.placement(id(0));
  allocator.free(id(0));
  ASSERT_TRUE(allocator.allocate(id(1), 30 * kMiB, kStream0));
  EXPECT_EQ(allocator.placement(id(1)).address, first.address);
  EXPECT_EQ(allocator.counters().num_device_alloc, 1U);
}

TEST_P(BehaviourTest, another_stream_never_gets_a_cached_block) {
  Allocator allocator = make();
  ASSERT_TRUE(allocator.allocate(id(0), 30 * kMiB, kStream0));
  const Placement first = allocator.placement(id(0));
  allocator.free(id(0));
  ASSERT_TRUE(allocator.allocate(id(1), 30 * kMiB, kStream1));
  EXPECT_NE(allocator.placement(id(1)).segment, first.segment);
}

TEST_P(BehaviourTest, a_private_pool_shares_nothing_with_the_default_pool) {
  Allocator allocator = make();
  ASSERT_TRUE(allocator.allocate(id(0), 30 * kMiB, kStream0));
  allocator.free(id(0));
  ASSERT_TRUE(allocator.allocate(id(1), 30 * kMiB, kPrivate));
  allocator.free(id(1));
  allocator.empty_cache();
  // The pool is in use: its memory stays.
  const std::uint64_t kept = allocator.reserved_bytes();
  EXPECT_GE(kept, 30 * kMiB);
  allocator.release_pool(PoolIndex(1));
  allocator.empty_cache();
  EXPECT_EQ(allocator.reserved_bytes(), 0U);
}

TEST_P(BehaviourTest, emptying_one_pool_leaves_the_others_alone) {
  Allocator allocator = make();
  ASSERT_TRUE(allocator.allocate(id(0), 30 * kMiB, kStream0));
  const std::uint64_t standard = allocator.reserved_bytes();
  ASSERT_TRUE(allocator.allocate(id(1), 30 * kMiB, kPrivate));
  allocator.free(id(0));
  allocator.free(id(1));
  allocator.empty_pool(PoolIndex(1));
  EXPECT_EQ(allocator.reserved_bytes(), standard);
}

TEST_P(BehaviourTest, a_pending_block_is_not_reused_before_it_completes) {
  Allocator allocator = make();
  ASSERT_TRUE(allocator.allocate(id(0), 30 * kMiB, kStream0));
  const Placement first = allocator.placement(id(0));
  allocator.request_free(id(0));
  EXPECT_EQ(allocator.counters().allocated_bytes.current(), 0U);
  EXPECT_EQ(allocator.counters().active_bytes.current(), first.block_bytes);
  ASSERT_TRUE(allocator.allocate(id(1), 30 * kMiB, kStream0));
  EXPECT_NE(allocator.placement(id(1)).address, first.address);
  allocator.complete_free(id(0));
  ASSERT_TRUE(allocator.allocate(id(2), 30 * kMiB, kStream0));
  EXPECT_EQ(allocator.placement(id(2)).address, first.address);
}

TEST_P(BehaviourTest, empty_cache_returns_everything_once_nothing_is_in_use) {
  Allocator allocator = make();
  for (std::size_t n = 0; n < 60; ++n) {
    ASSERT_TRUE(
        allocator.allocate(id(n), (n * 7919 % 97 + 1) * 333'333, n % 2 == 0 ? kStream0 : kStream1));
  }
  for (std::size_t n = 0; n < 60; ++n) {
    if (n % 3 == 0) {
      allocator.request_free(id(n));
    } else {
      allocator.free(id(n));
    }
  }
  allocator.empty_cache();
  EXPECT_EQ(allocator.reserved_bytes(), 0U);
  EXPECT_EQ(allocator.counters().active_bytes.current(), 0U);
  EXPECT_EQ(allocator.counters().num_device_alloc > 0, allocator.counters().num_device_free > 0);
}

TEST_P(BehaviourTest, an_oom_leaves_no_trace_but_its_counters) {
  MemoryLimit limit;
  limit.allowed_bytes = 200 * kMiB;
  Allocator allocator = make(limit);
  ASSERT_TRUE(allocator.allocate(id(0), 100 * kMiB, kStream0));
  EXPECT_FALSE(allocator.allocate(id(1), 150 * kMiB, kStream0));
  EXPECT_FALSE(allocator.is_live(id(1)));
  EXPECT_EQ(allocator.counters().num_ooms, 1U);
  EXPECT_EQ(allocator.counters().num_alloc_retries, 1U);
  EXPECT_EQ(allocator.counters().allocation.current(), 1U);
  allocator.free(id(1));
  allocator.request_free(id(1));
  allocator.complete_free(id(1));
  EXPECT_EQ(allocator.counters().allocation.current(), 1U);
  EXPECT_TRUE(allocator.is_valid());
}

TEST_P(BehaviourTest, the_retry_empties_the_cache_and_waits_for_streams) {
  MemoryLimit limit;
  limit.allowed_bytes = 220 * kMiB;
  Allocator allocator = make(limit);
  ASSERT_TRUE(allocator.allocate(id(0), 90 * kMiB, kStream0));
  ASSERT_TRUE(allocator.allocate(id(1), 90 * kMiB, kStream1));
  allocator.request_free(id(0));
  allocator.free(id(1));
  ASSERT_TRUE(allocator.allocate(id(2), 180 * kMiB, kStream0));
  EXPECT_EQ(allocator.counters().num_alloc_retries, 1U);
  EXPECT_EQ(allocator.counters().num_ooms, 0U);
  allocator.complete_free(id(0));  // completed long ago
  EXPECT_EQ(allocator.counters().active.current(), 1U);
}

TEST_P(BehaviourTest, requests_in_a_pool_scope_never_empty_the_cache_before_torch_2_13) {
  MemoryLimit limit;
  limit.allowed_bytes = 220 * kMiB;
  Allocator allocator = make(limit);
  ASSERT_TRUE(allocator.allocate(id(0), 150 * kMiB, kStream0));
  allocator.free(id(0));
  const bool flushes = GetParam().version >= TorchVersion{2, 13};
  const double threshold = settings_of(GetParam()).garbage_collection_threshold;
  const bool collects = threshold > 0 && 150 > threshold * 220;
  EXPECT_EQ(allocator.allocate(id(1), 100 * kMiB, kPrivate), flushes || collects);
  EXPECT_EQ(allocator.counters().num_alloc_retries, flushes ? 1U : 0U);
}

TEST_P(BehaviourTest, a_request_larger_than_any_device_fails_without_being_tried) {
  Allocator allocator = make();
  EXPECT_FALSE(allocator.allocate(id(0), kMaxRequestBytes + 1, kStream0));
  EXPECT_EQ(allocator.counters().num_ooms, 1U);
  EXPECT_EQ(allocator.counters().num_device_alloc, 0U);
}

TEST_P(BehaviourTest, the_device_itself_can_be_full) {
  MemoryLimit limit;
  limit.device_bytes = 200 * kMiB;
  Allocator allocator = make(limit);
  EXPECT_TRUE(allocator.allocate(id(0), 100 * kMiB, kStream0));
  EXPECT_FALSE(allocator.allocate(id(1), 150 * kMiB, kStream0));
  EXPECT_LE(allocator.reserved_bytes(), limit.device_bytes);
}

TEST_P(BehaviourTest, the_same_requests_always_give_the_same_run) {
  RisingAddresses other_addresses;
  Allocator first = make();
  Allocator second({settings_of(GetParam()), rules_for(GetParam().version), {}, 80 * kGiB},
                   other_addresses);
  second.add_stream_pool({0, kDefaultPool});
  second.add_stream_pool({1, kDefaultPool});
  for (std::size_t n = 0; n < 200; ++n) {
    for (Allocator* allocator : {&first, &second}) {
      allocator->allocate(id(n), (n * 104'729 % 1009 + 1) * 20'011, kStream0);
      if (n > 10 && n % 3 != 0) allocator->free(id(n - 10));
    }
    ASSERT_EQ(first.placement(id(n)).block_bytes, second.placement(id(n)).block_bytes);
    ASSERT_EQ(first.placement(id(n)).offset_bytes, second.placement(id(n)).offset_bytes);
  }
  EXPECT_EQ(first.reserved_bytes(), second.reserved_bytes());
}

INSTANTIATE_TEST_SUITE_P(Settings, BehaviourTest, testing::ValuesIn(kTestedSettings),
                         [](const auto& tested) { return name_of(tested.param); });

}  // namespace
}  // namespace gpumemprof::sim
