// The rules specific to one version or one setting, in handwritten cases.
#include "sim/allocator/rules.h"

#include <gtest/gtest.h>

#include "sim/allocator/allocator.h"

namespace gpumemprof::sim {
namespace {

class RulesTest : public testing::Test {
 protected:
  Allocator make(const char* conf, TorchVersion version = {2, 11}, MemoryLimit limit = {}) {
    Allocator allocator(
        {parse_alloc_conf(conf, version).value().settings, rules_for(version), limit, 80 * kGiB},
        addresses_);
    allocator.add_stream_pool({0, kDefaultPool});
    allocator.add_pool(PoolKind::graph);
    allocator.add_stream_pool({0, PoolIndex(1)});
    return allocator;
  }

  std::uint64_t allocate(Allocator& allocator, std::uint64_t bytes,
                         StreamPoolId stream_pool = StreamPoolId(0UL)) {
    EXPECT_TRUE(allocator.allocate(AllocationId(next_), bytes, stream_pool));
    return allocator.placement(AllocationId(next_++)).address;
  }
  std::uint64_t block_bytes(const Allocator& allocator, std::size_t id) {
    return allocator.placement(AllocationId(id)).block_bytes;
  }
  static void free(Allocator& allocator, std::size_t id) { allocator.free(AllocationId(id)); }

  // Hands out addresses in the order a test wants.
  class ListedAddresses final : public AddressSource {
   public:
    std::vector<std::uint64_t> addresses;
    std::uint64_t place_segment(std::uint64_t) override { return take(); }
    std::uint64_t place_range(std::uint64_t) override { return take(); }

   private:
    std::uint64_t take() { return addresses[next_++]; }
    std::size_t next_ = 0;
  };

  RisingAddresses addresses_;
  std::size_t next_ = 0;
};

TEST_F(RulesTest, segments_are_2_mib_20_mib_or_the_request_rounded_to_2_mib) {
  const AllocatorSettings settings;
  EXPECT_EQ(segment_bytes_for(512, settings), 2 * kMiB);
  EXPECT_EQ(segment_bytes_for(kMiB, settings), 2 * kMiB);
  EXPECT_EQ(segment_bytes_for(kMiB + 512, settings), 20 * kMiB);
  EXPECT_EQ(segment_bytes_for(10 * kMiB - 512, settings), 20 * kMiB);
  EXPECT_EQ(segment_bytes_for(10 * kMiB, settings), 10 * kMiB);
  EXPECT_EQ(segment_bytes_for(10 * kMiB + 512, settings), 12 * kMiB);
}

TEST_F(RulesTest, a_fraction_of_one_is_a_limit_until_torch_2_9) {
  EXPECT_EQ(limit_of_fraction(1.0, 1000, rules_for({2, 9})).allowed_bytes, 1000U);
  EXPECT_EQ(limit_of_fraction(1.0, 1000, rules_for({2, 10})).allowed_bytes, kNoLimit);
}

TEST_F(RulesTest, the_limit_is_truncated_until_torch_2_12_and_rounded_since) {
  EXPECT_EQ(limit_of_fraction(0.9999, 1001, rules_for({2, 11})).allowed_bytes, 1000U);
  EXPECT_EQ(limit_of_fraction(0.9999, 1001, rules_for({2, 13})).allowed_bytes, 1001U);
}

TEST_F(RulesTest, ties_go_to_the_lowest_address_until_torch_2_12_and_to_the_oldest_segment_since) {
  for (const TorchVersion version : {TorchVersion{2, 11}, TorchVersion{2, 13}}) {
    ListedAddresses listed;
    listed.addresses = {0x9000'0000'0000, 0x8000'0000'0000};
    Allocator allocator({{}, rules_for(version), {}, 80 * kGiB}, listed);
    allocator.add_stream_pool({0, kDefaultPool});
    for (std::size_t n = 0; n < 2; ++n)
      allocator.allocate(AllocationId(n), 30 * kMiB, StreamPoolId(0UL));
    for (std::size_t n = 0; n < 2; ++n) allocator.free(AllocationId(n));
    allocator.allocate(AllocationId(2UL), 30 * kMiB, StreamPoolId(0UL));
    const bool oldest = version >= TorchVersion{2, 13};
    EXPECT_EQ(allocator.placement(AllocationId(2UL)).address,
              oldest ? 0x9000'0000'0000U : 0x8000'0000'0000U);
  }
}

TEST_F(RulesTest, private_pools_use_expandable_segments_since_torch_2_5) {
  const auto plain_segments = [&](TorchVersion version) {
    Allocator allocator = make("expandable_segments:True", version);
    allocate(allocator, 30 * kMiB, StreamPoolId(1UL));
    return allocator.counters().segment.current();
  };
  EXPECT_EQ(plain_segments({2, 4}), 1U);
  EXPECT_EQ(plain_segments({2, 5}), 0U);
}

TEST_F(RulesTest, a_large_block_is_split_only_when_more_than_1_mib_remains) {
  Allocator allocator = make("");
  allocate(allocator, 12 * kMiB);
  free(allocator, 0);
  allocate(allocator, 11 * kMiB);
  EXPECT_EQ(block_bytes(allocator, 1), 12 * kMiB);
  free(allocator, 1);
  allocate(allocator, 11 * kMiB - 512);
  EXPECT_EQ(block_bytes(allocator, 2), 11 * kMiB - 512);
}

TEST_F(RulesTest, a_small_request_does_not_take_an_oversize_block) {
  Allocator allocator = make("max_split_size_mb:32");
  allocate(allocator, 40 * kMiB);
  free(allocator, 0);
  allocate(allocator, 30 * kMiB);
  EXPECT_EQ(allocator.counters().segment.current(), 2U);
  EXPECT_EQ(allocator.counters().oversize_segments.current(), 1U);
}

TEST_F(RulesTest, an_oversize_request_takes_an_oversize_block_up_to_the_rounding_allowed) {
  Allocator allocator = make("max_split_size_mb:32");
  allocate(allocator, 60 * kMiB);
  free(allocator, 0);
  allocate(allocator, 40 * kMiB);  // 60 is not below 40 + 20
  EXPECT_EQ(allocator.counters().segment.current(), 2U);
  free(allocator, 1);
  allocate(allocator, 41 * kMiB);
  EXPECT_EQ(block_bytes(allocator, 2), 60 * kMiB);  // never split
  EXPECT_EQ(allocator.counters().oversize_allocations.current(), 1U);
}

TEST_F(RulesTest, without_room_one_oversize_block_that_suffices_is_returned_before_any_retry) {
  MemoryLimit limit;
  limit.allowed_bytes = 200 * kMiB;
  Allocator allocator = make("max_split_size_mb:32", {2, 11}, limit);
  allocate(allocator, 100 * kMiB);
  allocate(allocator, 60 * kMiB);
  free(allocator, 0);
  free(allocator, 1);
  allocate(allocator, 130 * kMiB);
  EXPECT_EQ(allocator.counters().num_device_free, 2U);
  EXPECT_EQ(allocator.counters().num_alloc_retries, 0U);
}

TEST_F(RulesTest, throw_on_cudamalloc_oom_rejects_without_a_retry) {
  MemoryLimit limit;
  limit.allowed_bytes = 200 * kMiB;
  Allocator allocator = make("throw_on_cudamalloc_oom:True", {2, 12}, limit);
  allocate(allocator, 150 * kMiB);
  free(allocator, 0);
  EXPECT_FALSE(allocator.allocate(AllocationId(next_), 160 * kMiB, StreamPoolId(0UL)));
  EXPECT_EQ(allocator.counters().num_alloc_retries, 0U);
  EXPECT_EQ(allocator.reserved_bytes(), 150 * kMiB);
}

TEST_F(RulesTest, garbage_collection_returns_the_blocks_unused_longest) {
  MemoryLimit limit;
  limit.allowed_bytes = 1000 * kMiB;
  Allocator allocator = make("garbage_collection_threshold:0.6", {2, 11}, limit);
  allocator.keep_calls(true);
  const std::uint64_t unused_long = allocate(allocator, 100 * kMiB);
  allocate(allocator, 380 * kMiB);
  allocate(allocator, 130 * kMiB);
  free(allocator, 0);
  for (int n = 0; n < 5; ++n) {
    free(allocator, next_ - 1);
    allocate(allocator, 130 * kMiB);
  }
  free(allocator, next_ - 1);
  allocator.clear_calls();
  allocate(allocator, 300 * kMiB);
  ASSERT_EQ(allocator.calls().size(), 2U);
  EXPECT_EQ(allocator.calls()[0].action, Action::segment_free);
  EXPECT_EQ(allocator.calls()[0].address, unused_long);
}

TEST_F(RulesTest, garbage_collection_needs_a_limit) {
  Allocator allocator = make("garbage_collection_threshold:0.1");
  for (int n = 0; n < 20; ++n) {
    allocate(allocator, (30 + static_cast<std::uint64_t>(n)) * kMiB);
    free(allocator, next_ - 1);
  }
  EXPECT_EQ(allocator.counters().num_device_free, 0U);
}

TEST_F(RulesTest, an_expandable_segment_grows_in_place_by_whole_pages) {
  Allocator allocator = make("expandable_segments:True");
  allocator.keep_calls(true);
  const std::uint64_t first = allocate(allocator, 30 * kMiB);
  const std::uint64_t second = allocate(allocator, 30 * kMiB);
  EXPECT_EQ(second, first + 30 * kMiB);
  ASSERT_EQ(allocator.calls().size(), 2U);
  EXPECT_EQ(allocator.calls()[0].size_bytes, 40 * kMiB);
  EXPECT_EQ(allocator.calls()[1].size_bytes, 20 * kMiB);
  EXPECT_EQ(allocator.calls()[1].address, first + 40 * kMiB);
  EXPECT_EQ(allocator.counters().segment.current(), 0U);
}

TEST_F(RulesTest, empty_cache_unmaps_only_pages_that_are_wholly_free) {
  Allocator allocator = make("expandable_segments:True");
  const std::uint64_t base = allocate(allocator, 30 * kMiB);
  allocate(allocator, 50 * kMiB);
  allocate(allocator, 4 * kMiB);
  allocator.keep_calls(true);
  free(allocator, 1);
  allocator.empty_cache();
  ASSERT_EQ(allocator.calls().size(), 1U);  // of [30, 80) MiB
  EXPECT_EQ(allocator.calls()[0].action, Action::segment_unmap);
  EXPECT_EQ(allocator.calls()[0].address, base + 40 * kMiB);
  EXPECT_EQ(allocator.calls()[0].size_bytes, 40 * kMiB);
}

TEST_F(RulesTest, unmapped_holes_are_filled_from_the_lowest) {
  Allocator allocator = make("expandable_segments:True");
  const std::uint64_t base = allocate(allocator, 40 * kMiB);
  allocate(allocator, 40 * kMiB);
  free(allocator, 0);
  allocator.empty_cache();
  EXPECT_EQ(allocator.reserved_bytes(), 40 * kMiB);
  EXPECT_EQ(allocate(allocator, 20 * kMiB), base);
}

TEST_F(RulesTest, reserved_bytes_may_pass_the_limit_by_part_of_a_page) {
  MemoryLimit limit;
  limit.allowed_bytes = 31 * kMiB;
  Allocator allocator = make("expandable_segments:True", {2, 11}, limit);
  allocate(allocator, 30 * kMiB);
  EXPECT_EQ(allocator.reserved_bytes(), 40 * kMiB);
  EXPECT_TRUE(allocator.is_valid());
}

}  // namespace
}  // namespace gpumemprof::sim
