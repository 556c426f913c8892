#include "replay/block_map.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "base/bytes.h"

namespace gpumemprof {
namespace {

constexpr std::uint64_t kBase = 0x10000000;
constexpr std::uint64_t kPage = 2 * kMiB;

class BlockMapTest : public testing::Test {
 protected:
  // Hands out size_bytes at address, which must start a free block.
  std::uint32_t take(std::uint64_t address, std::uint64_t size_bytes) {
    const std::uint32_t block = map_.find(address);
    EXPECT_NE(block, kNoBlock);
    map_.take(block, size_bytes, AllocationId(next_allocation_++));
    EXPECT_TRUE(map_.is_valid());
    return block;
  }
  void release(std::uint64_t address) {
    map_.release(map_.find(address));
    EXPECT_TRUE(map_.is_valid());
  }
  [[nodiscard]] std::uint64_t size_at(std::uint64_t address) const {
    const std::uint32_t block = map_.find(address);
    return block == kNoBlock ? 0 : map_[block].size_bytes;
  }

  BlockMap map_;
  std::size_t next_allocation_ = 0;
};

TEST_F(BlockMapTest, splits_the_front_off_a_free_block) {
  ASSERT_TRUE(map_.add_segment(kBase, kPage, SegmentId(0)));
  take(kBase, 1024);
  EXPECT_EQ(size_at(kBase), 1024U);
  EXPECT_EQ(size_at(kBase + 1024), kPage - 1024);
  EXPECT_TRUE(map_[map_.find(kBase + 1024)].is_free());
}

TEST_F(BlockMapTest, merges_a_freed_block_with_both_neighbours) {
  ASSERT_TRUE(map_.add_segment(kBase, kPage, SegmentId(0)));
  take(kBase, 512);
  take(kBase + 512, 512);
  take(kBase + 1024, 512);
  release(kBase);
  release(kBase + 1024);
  EXPECT_EQ(size_at(kBase), 512U);
  release(kBase + 512);
  EXPECT_EQ(size_at(kBase), kPage);
}

TEST_F(BlockMapTest, never_merges_across_plain_segments) {
  ASSERT_TRUE(map_.add_segment(kBase, kPage, SegmentId(0)));
  ASSERT_TRUE(map_.add_segment(kBase + kPage, kPage, SegmentId(1)));
  EXPECT_TRUE(map_.is_valid());
  EXPECT_EQ(size_at(kBase), kPage);
  EXPECT_EQ(size_at(kBase + kPage), kPage);
}

TEST_F(BlockMapTest, refuses_memory_that_overlaps_or_wraps_around) {
  ASSERT_TRUE(map_.add_segment(kBase, kPage, SegmentId(0)));
  EXPECT_FALSE(map_.add_segment(kBase, kPage, SegmentId(1)));
  EXPECT_FALSE(map_.add_segment(kBase + 512, 512, SegmentId(1)));
  EXPECT_FALSE(map_.add_segment(kBase - 512, 1024, SegmentId(1)));
  EXPECT_FALSE(map_.map_pages(kBase - kPage, 3 * kPage, SegmentId(1)));
  EXPECT_FALSE(map_.add_segment(~std::uint64_t{0} - 511, 1024, SegmentId(1)));
  EXPECT_FALSE(map_.add_segment(kBase + kPage, 0, SegmentId(1)));
  EXPECT_TRUE(map_.is_valid());
}

TEST_F(BlockMapTest, gives_a_segment_back_only_whole_and_free) {
  ASSERT_TRUE(map_.add_segment(kBase, kPage, SegmentId(0)));
  EXPECT_FALSE(map_.remove_segment(kBase, kPage / 2));
  EXPECT_FALSE(map_.remove_segment(kBase + 512, kPage));
  take(kBase, 512);
  EXPECT_FALSE(map_.remove_segment(kBase, kPage));
  EXPECT_FALSE(map_.remove_segment(kBase, 512));
  release(kBase);
  EXPECT_TRUE(map_.remove_segment(kBase, kPage));
  EXPECT_EQ(map_.find(kBase), kNoBlock);
  EXPECT_TRUE(map_.is_valid());
  EXPECT_TRUE(map_.add_segment(kBase, kPage, SegmentId(1)));
}

TEST_F(BlockMapTest, merges_mapped_pages_into_one_run) {
  ASSERT_TRUE(map_.map_pages(kBase, kPage, SegmentId(0)));
  ASSERT_TRUE(map_.map_pages(kBase + 2 * kPage, kPage, SegmentId(1)));
  EXPECT_EQ(size_at(kBase), kPage);
  ASSERT_TRUE(map_.map_pages(kBase + kPage, kPage, SegmentId(2)));
  EXPECT_EQ(size_at(kBase), 3 * kPage);
  EXPECT_TRUE(map_.is_valid());
}

TEST_F(BlockMapTest, joins_a_mapped_page_to_blocks_in_use) {
  ASSERT_TRUE(map_.map_pages(kBase, kPage, SegmentId(0)));
  take(kBase, kPage);
  ASSERT_TRUE(map_.map_pages(kBase + kPage, kPage, SegmentId(1)));
  EXPECT_TRUE(map_.is_valid());
  EXPECT_EQ(size_at(kBase + kPage), kPage);
  release(kBase);
  EXPECT_EQ(size_at(kBase), 2 * kPage);
}

TEST_F(BlockMapTest, leaves_slivers_on_both_sides_of_unmapped_pages) {
  ASSERT_TRUE(map_.map_pages(kBase, 4 * kPage, SegmentId(0)));
  take(kBase, 512);
  ASSERT_TRUE(map_.unmap_pages(kBase + kPage, 2 * kPage));
  EXPECT_TRUE(map_.is_valid());
  EXPECT_EQ(size_at(kBase + 512), kPage - 512);
  EXPECT_EQ(size_at(kBase + 3 * kPage), kPage);
  EXPECT_EQ(map_.find_containing(kBase + kPage), kNoBlock);
  release(kBase);
  EXPECT_EQ(size_at(kBase), kPage);
}

TEST_F(BlockMapTest, unmaps_only_free_pages) {
  ASSERT_TRUE(map_.map_pages(kBase, 2 * kPage, SegmentId(0)));
  take(kBase, kPage);
  EXPECT_FALSE(map_.unmap_pages(kBase, kPage));
  EXPECT_FALSE(map_.unmap_pages(kBase + kPage, 2 * kPage));
  EXPECT_FALSE(map_.unmap_pages(kBase + kPage, 0));
  EXPECT_FALSE(map_.unmap_pages(kBase + kPage, ~std::uint64_t{0}));
  EXPECT_TRUE(map_.unmap_pages(kBase + kPage, kPage));
  EXPECT_TRUE(map_.is_valid());
}

TEST_F(BlockMapTest, does_not_unmap_plain_segments) {
  ASSERT_TRUE(map_.add_segment(kBase, kPage, SegmentId(0)));
  EXPECT_FALSE(map_.unmap_pages(kBase, kPage));
  ASSERT_TRUE(map_.map_pages(kBase + kPage, kPage, SegmentId(1)));
  EXPECT_FALSE(map_.remove_segment(kBase + kPage, kPage));
  EXPECT_TRUE(map_.is_valid());
}

TEST_F(BlockMapTest, grows_a_block_only_into_free_memory) {
  ASSERT_TRUE(map_.add_segment(kBase, kPage, SegmentId(0)));
  const std::uint32_t block = take(kBase, 512);
  EXPECT_TRUE(map_.grow(block, 1024));
  EXPECT_TRUE(map_.is_valid());
  EXPECT_EQ(size_at(kBase + 1024), kPage - 1024);
  EXPECT_FALSE(map_.grow(block, kPage));
  take(kBase + 1024, 512);
  EXPECT_FALSE(map_.grow(block, 1536));
  EXPECT_TRUE(map_.is_valid());
}

TEST_F(BlockMapTest, finds_the_block_around_an_address) {
  ASSERT_TRUE(map_.add_segment(kBase, kPage, SegmentId(0)));
  const std::uint32_t block = take(kBase, 1024);
  EXPECT_EQ(map_.find_containing(kBase + 1023), block);
  EXPECT_EQ(map_.find_containing(kBase + 1024), map_.find(kBase + 1024));
  EXPECT_EQ(map_.find_containing(kBase - 1), kNoBlock);
  EXPECT_EQ(map_.find_containing(kBase + kPage), kNoBlock);
  EXPECT_EQ(map_.find(kBase + 512), kNoBlock);
}

TEST_F(BlockMapTest, knows_segments_that_could_be_given_back) {
  EXPECT_FALSE(map_.has_unsplit_free_segment());
  ASSERT_TRUE(map_.add_segment(kBase, kPage, SegmentId(0)));
  EXPECT_TRUE(map_.has_unsplit_free_segment());
  take(kBase, 512);
  EXPECT_FALSE(map_.has_unsplit_free_segment());
  ASSERT_TRUE(map_.map_pages(kBase + kPage, kPage, SegmentId(1)));
  EXPECT_FALSE(map_.has_unsplit_free_segment());
}

// Random operations, valid and invalid ones, against a plain list of what is in use.
TEST_F(BlockMapTest, stays_valid_under_random_operations) {
  std::mt19937 random(11);
  std::map<std::uint64_t, std::uint64_t> in_use;
  const auto pick = [&](unsigned count) { return random() % count; };
  for (int round = 0; round < 20000; ++round) {
    const std::uint64_t page = kBase + pick(16) * kPage;
    const bool is_plain = page < kBase + 4 * kPage;  // some addresses for each kind
    switch (pick(6)) {
      case 0:
        is_plain ? map_.add_segment(page, kPage, SegmentId(0))
                 : map_.map_pages(page, kPage, SegmentId(0));
        break;
      case 1:
        is_plain ? map_.remove_segment(page, kPage) : map_.unmap_pages(page, kPage);
        break;
      default: {
        const std::uint64_t wanted = 512 * (1 + pick(3000));
        const std::uint32_t block = map_.find_containing(page + 512 * pick(4096));
        if (block == kNoBlock) break;
        const std::uint64_t address = map_[block].address;
        if (!map_[block].is_free()) {
          ASSERT_EQ(in_use.at(address), map_[block].size_bytes);
          map_.release(block);
          in_use.erase(address);
        } else if (map_[block].size_bytes >= wanted) {
          map_.take(block, wanted, AllocationId(next_allocation_++));
          in_use[address] = wanted;
        }
      }
    }
    ASSERT_TRUE(map_.is_valid()) << "round " << round;
    for (const auto& [address, size_bytes] : in_use) ASSERT_EQ(size_at(address), size_bytes);
  }
  EXPECT_GT(next_allocation_, 1000U);
}

}  // namespace
}  // namespace gpumemprof
