// Main memory, as this machine reports it, and which readings are worth storing.
#include "capture/ledger/host_memory.h"

#include <gtest/gtest.h>

namespace gpumemprof::capture {
namespace {

constexpr std::uint64_t kGiB = 1ULL << 30U;

TEST(HostMemory, is_read_and_plausible) {
  const std::optional<HostMemory> host = read_host_memory();
  ASSERT_TRUE(host);
  EXPECT_GT(host->resident_bytes, 0U);
  EXPECT_LE(host->resident_bytes, host->total_bytes);
  EXPECT_LE(host->available_bytes, host->total_bytes);
}

TEST(HostMemory, is_news_if_much_changed_or_little_is_left) {
  const HostMemory before{10 * kGiB, 50 * kGiB, 100 * kGiB};
  EXPECT_FALSE(is_news(before, before));
  EXPECT_FALSE(is_news(before, {12 * kGiB, 48 * kGiB, 100 * kGiB}));
  EXPECT_TRUE(is_news(before, {30 * kGiB, 30 * kGiB, 100 * kGiB}));
  const HostMemory low{50 * kGiB, 5 * kGiB, 100 * kGiB};
  EXPECT_TRUE(is_news(low, {52 * kGiB, 3 * kGiB, 100 * kGiB}));
  EXPECT_FALSE(is_news(low, {50 * kGiB, 5 * kGiB + 1, 100 * kGiB}));
}

TEST(HostMemory, is_stored_once_until_it_changes) {
  HostMemoryWatch watch;
  EXPECT_TRUE(watch.look());
  EXPECT_FALSE(watch.look());
}

}  // namespace
}  // namespace gpumemprof::capture
