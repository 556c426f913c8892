#include "capture/ledger/ledger.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <thread>
#include <vector>

namespace gpumemprof::capture {
namespace {

constexpr std::size_t kRows = 1U << 12;

TEST(Ledger, tells_each_nested_scope_its_own_peak) {
  Ledger ledger(0, kRows);
  OpenScope outer;
  OpenScope middle;
  OpenScope inner;
  ledger.open(outer);
  ledger.on_alloc(0x1000, 500);
  ledger.on_free(0x1000);
  ledger.on_alloc(0x2000, 10);
  ledger.open(middle);
  ledger.on_alloc(0x3000, 300);
  ledger.on_free(0x3000);
  ledger.open(inner);
  ledger.on_alloc(0x4000, 100);
  ledger.on_free(0x4000);
  EXPECT_EQ(ledger.close(inner)->peak.allocated_bytes, 110U);
  EXPECT_EQ(ledger.close(middle)->peak.allocated_bytes, 310U);
  const ScopeReading whole = *ledger.close(outer);
  EXPECT_EQ(whole.peak.allocated_bytes, 500U);
  EXPECT_EQ(whole.turnover, (Turnover{910, 900, 4, 3}));
  EXPECT_EQ(whole.after.allocated_bytes, 10U);
}

TEST(Ledger, tells_scopes_that_close_out_of_order_their_peaks) {
  Ledger ledger(0, kRows);
  OpenScope first;
  OpenScope second;
  OpenScope third;
  ledger.open(first);
  ledger.open(second);
  ledger.open(third);
  ledger.on_alloc(0x1000, 70);
  EXPECT_EQ(ledger.close(first)->peak.allocated_bytes, 70U);
  ledger.on_alloc(0x2000, 5);
  EXPECT_EQ(ledger.close(second)->peak.allocated_bytes, 75U);
  ledger.on_free(0x1000);
  EXPECT_EQ(ledger.close(third)->peak.allocated_bytes, 75U);
}

TEST(Ledger, takes_the_earliest_of_equal_peaks) {
  Ledger ledger(0, kRows);
  OpenScope scope;
  ledger.open(scope);
  ledger.on_alloc(0x1000, 8);
  const LedgerState at_first = ledger.now();
  ledger.on_free(0x1000);
  ledger.on_alloc(0x1000, 8);
  EXPECT_LE(ledger.close(scope)->peak.ticks, at_first.ticks);
}

TEST(Ledger, starts_a_peak_at_what_was_there_before) {
  Ledger ledger(0, kRows);
  ledger.on_alloc(0x1000, 64);
  OpenScope scope;
  ledger.open(scope);
  ledger.on_free(0x1000);
  const ScopeReading reading = *ledger.close(scope);
  EXPECT_EQ(reading.peak.allocated_bytes, 64U);
  EXPECT_EQ(reading.peak.ticks, reading.before.ticks);
}

TEST(Ledger, loses_no_event_between_two_intervals_of_one_scope) {
  Ledger ledger(0, kRows);
  OpenScope scope;
  ledger.open(scope);
  ledger.on_alloc(0x1000, 64);
  ledger.on_free(0x1000);
  EXPECT_EQ(ledger.turn_over(scope)->peak.allocated_bytes, 64U);
  EXPECT_EQ(ledger.turn_over(scope)->peak.allocated_bytes, 0U);
  ledger.on_alloc(0x2000, 3);
  EXPECT_EQ(ledger.close(scope)->peak.allocated_bytes, 3U);
  EXPECT_EQ(ledger.close(scope), std::nullopt);
}

TEST(Ledger, believes_torchs_totals) {
  Ledger ledger(0, kRows);
  ledger.start_unknown(true);
  EXPECT_FALSE(ledger.knows_totals());
  ASSERT_TRUE(ledger.settle(ledger.version(), {1000, 4000, 3000, 5000, {}}));
  OpenScope scope;
  ledger.open(scope);
  ledger.on_report(0x1000, 512, 1512, 4000);
  ledger.on_free_completed(0x1000);  // a plain free: completed first, reported after
  ledger.on_report(0x1000, -512, 1000, 4000);
  const ScopeReading reading = *ledger.close(scope);
  EXPECT_EQ(reading.peak.allocated_bytes, 1512U);
  EXPECT_EQ(reading.peak.active_bytes, 1512U);
  EXPECT_EQ(reading.peak.most_allocated_bytes, 3000U);
  EXPECT_EQ(reading.after.active_bytes, 1000U);
  EXPECT_EQ(reading.after.most_reserved_bytes, 5000U);
  EXPECT_EQ(reading.turnover, (Turnover{512, 512, 1, 1}));
}

TEST(Ledger, counts_a_block_as_active_until_no_stream_uses_it) {
  Ledger ledger(0, kRows);
  ledger.start_unknown(true);
  ASSERT_TRUE(ledger.settle(ledger.version(), {0, 0, 0, 0, {}}));
  ledger.on_report(0x1000, 512, 512, 2048);
  ledger.on_report(0x1000, -512, 0, 2048);
  EXPECT_EQ(ledger.now().active_bytes, 512U);
  EXPECT_EQ(ledger.now().allocated_bytes, 0U);
  ledger.on_free_completed(0x1000);
  EXPECT_EQ(ledger.now().active_bytes, 0U);
}

TEST(Ledger, knows_blocks_that_waited_for_a_stream_when_it_began) {
  Ledger ledger(0, kRows);
  ledger.start_unknown(true);
  ASSERT_TRUE(ledger.settle(ledger.version(), {512, 2048, 512, 2048, {{0x9000, 1024}}}));
  EXPECT_EQ(ledger.now().active_bytes, 1536U);
  ledger.on_free_completed(0x9000);
  EXPECT_EQ(ledger.now().active_bytes, 512U);
}

TEST(Ledger, calls_active_bytes_unknown_after_a_completion_it_cannot_place) {
  Ledger ledger(0, kRows);
  ledger.start_unknown(true);
  ASSERT_TRUE(ledger.settle(ledger.version(), {0, 0, 0, 0, {}}));
  ledger.on_free_completed(0x7000);
  ledger.on_report(0x1000, 512, 512, 2048);
  EXPECT_EQ(ledger.now().active_bytes, kUnknownBytes);
  EXPECT_EQ(ledger.now().allocated_bytes, 512U);
  ASSERT_TRUE(ledger.settle(ledger.version(), {512, 2048, 512, 2048, {}}));
  EXPECT_EQ(ledger.now().active_bytes, 512U);
}

TEST(Ledger, never_guesses_active_bytes_where_completions_are_not_told) {
  Ledger ledger(0, kRows);
  ledger.start_unknown(false);
  ASSERT_TRUE(ledger.settle(ledger.version(), {0, 0, 0, 0, {}}));
  ledger.on_report(0x1000, 512, 512, 2048);
  ledger.on_report(0x1000, -512, 0, 2048);
  EXPECT_EQ(ledger.now().active_bytes, kUnknownBytes);
  EXPECT_FALSE(ledger.knows_active());
}

TEST(Ledger, refuses_a_state_that_is_out_of_date) {
  Ledger ledger(0, kRows);
  ledger.start_unknown(true);
  const std::uint64_t version = ledger.version();
  ledger.on_report(0x1000, 512, 1512, 2048);
  EXPECT_FALSE(ledger.settle(version, {1000, 2048, 1000, 2048, {}}));
  EXPECT_TRUE(ledger.knows_totals());
  EXPECT_EQ(ledger.now().allocated_bytes, 1512U);
}

TEST(Ledger, follows_what_the_pool_takes_and_returns) {
  Ledger ledger(0, kRows);
  ledger.start_unknown(true);
  ASSERT_TRUE(ledger.settle(ledger.version(), {0, 100, 0, 100, {}}));
  ledger.on_reserved_change(50);
  EXPECT_EQ(ledger.now().reserved_bytes, 150U);
  ledger.on_reserved_change(-120);
  EXPECT_EQ(ledger.now().reserved_bytes, 30U);
  EXPECT_EQ(ledger.now().most_reserved_bytes, 150U);
}

TEST(Ledger, says_how_many_allocations_it_could_not_follow) {
  Ledger ledger(0, 8);
  OpenScope scope;
  ledger.open(scope);
  for (std::uint64_t address = 1; address <= 10; ++address) ledger.on_alloc(address * 64, 1);
  const ScopeReading reading = *ledger.close(scope);
  EXPECT_EQ(reading.uncounted, 4U);
  EXPECT_EQ(reading.after.allocated_bytes, 6U);
}

TEST(Ledger, has_no_reading_of_a_scope_from_before_it_began_anew) {
  Ledger ledger(0, kRows);
  OpenScope scope;
  ledger.open(scope);
  ledger.start_from_nothing();
  ledger.on_alloc(0x1000, 5);
  EXPECT_EQ(ledger.close(scope), std::nullopt);
}

TEST(Ledger, tells_a_threads_own_turnover_from_that_of_all) {
  Ledger ledger(3, kRows);
  OpenScope scope;
  ledger.open(scope);
  ledger.on_alloc(0x1000, 100);
  std::thread([&] {
    ledger.on_alloc(0x2000, 30);
    ledger.on_free(0x1000);
  }).join();
  const ScopeReading reading = *ledger.close(scope);
  EXPECT_EQ(reading.turnover, (Turnover{130, 100, 2, 1}));
  EXPECT_EQ(reading.own, (Turnover{100, 0, 1, 0}));
}

TEST(Ledger, has_no_own_turnover_for_a_scope_that_another_thread_closes) {
  Ledger ledger(4, kRows);
  OpenScope scope;
  ledger.open(scope);
  std::thread([&] { EXPECT_EQ(ledger.close(scope)->own, std::nullopt); }).join();
}

// What a scope must report, computed the slow way: every scope sees every event.
struct ExpectedScope {
  std::uint64_t peak = 0;
  std::uint64_t allocated = 0;
  std::uint64_t freed = 0;
};

TEST(Ledger, agrees_with_a_slow_witness_over_random_scopes_and_events) {
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    Ledger ledger(0, kRows);
    std::vector<std::pair<std::uint64_t, std::uint64_t>> live;  // address, size
    std::vector<std::pair<std::unique_ptr<OpenScope>, ExpectedScope>> open;
    std::uint64_t allocated = 0;
    std::uint64_t next_address = 64;
    const auto hear = [&](std::uint64_t took, std::uint64_t gave) {
      allocated += took - gave;
      for (auto& [scope, expected] : open) {
        expected.peak = std::max(expected.peak, allocated);
        expected.allocated += took;
        expected.freed += gave;
      }
    };
    const auto check = [&](const std::optional<ScopeReading>& reading,
                           const ExpectedScope& expected) {
      ASSERT_TRUE(reading.has_value());
      ASSERT_EQ(reading->peak.allocated_bytes, expected.peak) << "seed " << seed;
      ASSERT_EQ(reading->turnover.allocated_bytes, expected.allocated) << "seed " << seed;
      ASSERT_EQ(reading->turnover.freed_bytes, expected.freed) << "seed " << seed;
      ASSERT_EQ(reading->after.allocated_bytes, allocated) << "seed " << seed;
    };
    for (int step = 0; step < 400; ++step) {
      const std::uint64_t what = random() % 100;
      if (what < 40) {
        const std::uint64_t size = 1 + random() % 1000;
        ledger.on_alloc(next_address, size);
        live.emplace_back(next_address, size);
        next_address += 64;
        hear(size, 0);
      } else if (what < 75 && !live.empty()) {
        const std::size_t row = random() % live.size();
        const auto [address, size] = live[row];
        live.erase(live.begin() + static_cast<std::ptrdiff_t>(row));
        ledger.on_free(address);
        hear(0, size);
      } else if (what < 87) {
        open.emplace_back(std::make_unique<OpenScope>(), ExpectedScope{allocated, 0, 0});
        ledger.open(*open.back().first);
      } else if (!open.empty()) {
        const std::size_t row = random() % open.size();
        if (what < 91) {
          check(ledger.turn_over(*open[row].first), open[row].second);
          open[row].second = ExpectedScope{allocated, 0, 0};
        } else {
          check(ledger.close(*open[row].first), open[row].second);
          open.erase(open.begin() + static_cast<std::ptrdiff_t>(row));
        }
      }
      if (HasFatalFailure()) return;
    }
    for (auto& [scope, expected] : open) check(ledger.close(*scope), expected);
  }
}

// Threads allocate and free at the same time; each also opens and closes scopes of its own. What
// must hold in any order: sums, and bounds on every peak.
TEST(Ledger, loses_nothing_when_threads_work_at_once) {
  constexpr int kThreads = 4;
  constexpr std::uint64_t kTurns = 4000;
  Ledger ledger(5, 1U << 16);
  OpenScope whole;
  ledger.open(whole);
  std::vector<std::thread> threads;
  for (int number = 0; number < kThreads; ++number) {
    threads.emplace_back([&, number] {
      const auto base = (static_cast<std::uint64_t>(number) + 1) << 32U;
      for (std::uint64_t turn = 0; turn < kTurns; ++turn) {
        OpenScope scope;
        ledger.open(scope);
        ledger.on_alloc(base + turn * 64, 10);
        ledger.on_alloc(base + (kTurns + turn) * 64, 1);
        ledger.on_free(base + turn * 64);
        const std::optional<ScopeReading> reading = ledger.close(scope);
        ASSERT_TRUE(reading.has_value());
        ASSERT_EQ(reading->own, (Turnover{11, 10, 2, 1}));
        ASSERT_GE(reading->peak.allocated_bytes, reading->after.allocated_bytes);
        ASSERT_GE(reading->peak.allocated_bytes, reading->before.allocated_bytes);
        ASSERT_GE(reading->peak.allocated_bytes, 11U);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const ScopeReading reading = *ledger.close(whole);
  EXPECT_EQ(reading.after.allocated_bytes, kThreads * kTurns);
  EXPECT_EQ(reading.turnover, (Turnover{kThreads * kTurns * 11, kThreads * kTurns * 10,
                                        kThreads * kTurns * 2, kThreads * kTurns}));
  EXPECT_LE(reading.peak.allocated_bytes, kThreads * (kTurns + 10));
}

TEST(Counting, is_off_until_someone_needs_it_and_shared_by_all_who_do) {
  constexpr std::uint8_t kSlot = 9;
  EXPECT_EQ(counting_ledger(kSlot), nullptr);
  EXPECT_TRUE(start_counting(kSlot));
  Ledger* ledger = counting_ledger(kSlot);
  ASSERT_NE(ledger, nullptr);
  EXPECT_FALSE(start_counting(kSlot));
  stop_counting(kSlot);
  EXPECT_EQ(counting_ledger(kSlot), ledger);
  stop_counting(kSlot);
  EXPECT_EQ(counting_ledger(kSlot), nullptr);
  stop_counting(kSlot);  // one extra call does no harm
  EXPECT_TRUE(start_counting(kSlot));
  stop_counting(kSlot);
}

}  // namespace
}  // namespace gpumemprof::capture
