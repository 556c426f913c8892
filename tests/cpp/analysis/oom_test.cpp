// Why a request failed, on synthetic cards: one device of 80 GiB, one segment for each block.
#include "analysis/oom/oom.h"

#include <gtest/gtest.h>

#include "replay/replay.h"

namespace gpumemprof {
namespace {

constexpr std::uint64_t kTotal = 80 * kGiB;

class Oom : public ::testing::Test {
 protected:
  Oom() {
    store_.add_stream(0);
    origin_.has_start = true;
    origin_.has_traces = true;
  }

  void state_fact(const std::string& key, const std::string& value) {
    origin_.facts.emplace_back(key, value);
  }
  void state_card() {
    state_fact("torch", "2.11.0");
    state_fact("device 0 total_bytes", std::to_string(kTotal));
  }
  StackId line(std::uint32_t number) {
    const Frame frame{store_.add_string("train"), store_.add_string("/train/train.py"), number};
    return store_.add_stack(StackId(), store_.add_frame(frame));
  }
  // In a segment of a pool of its own; freed, but kept by the pool.
  void free_in_private_pool(std::uint64_t size_bytes) {
    const std::uint32_t pool = store_.add_pool({0, 1});
    for (const Action action :
         {Action::segment_alloc, Action::alloc, Action::free_requested, Action::free_completed}) {
      events_.push_back({action, next_address_, size_bytes, 0, kUnknownTime, {}, {}, {}, pool, {}});
    }
    next_address_ += size_bytes + kGiB;
  }
  // Freed, but a stream still uses it.
  void free_later(std::uint64_t size_bytes) {
    const std::uint64_t address = next_address_;
    allocate(size_bytes);
    add(Action::free_requested, address, size_bytes, {});
  }
  void allocate(std::uint64_t size_bytes, StackId stack = {}) {
    add(Action::segment_alloc, next_address_, size_bytes, stack);
    add(Action::alloc, next_address_, size_bytes, stack);
    next_address_ += size_bytes + kGiB;
  }
  // A segment of four blocks, of which the first stays.
  void allocate_one_of_four(std::uint64_t size_bytes) {
    add(Action::segment_alloc, next_address_, 4 * size_bytes, {});
    for (std::uint64_t block = 0; block < 4; ++block)
      add(Action::alloc, next_address_ + block * size_bytes, size_bytes, {});
    rest_.push_back(next_address_ + size_bytes);
    next_address_ += 4 * size_bytes + kGiB;
  }
  void free_rest(std::uint64_t size_bytes) {
    for (const std::uint64_t address : rest_) {
      for (std::uint64_t block = 0; block < 3; ++block) {
        add(Action::free_requested, address + block * size_bytes, size_bytes, {});
        add(Action::free_completed, address + block * size_bytes, size_bytes, {});
      }
    }
  }
  void run_out(std::uint64_t wanted_bytes, std::uint64_t device_free_bytes, StackId stack = {}) {
    add(Action::oom, device_free_bytes, wanted_bytes, stack);
  }
  void sample(std::uint64_t process_bytes, std::uint64_t other_processes_bytes) {
    DeviceSample row;
    row.total_bytes = kTotal;
    row.process_bytes = process_bytes;
    row.other_processes_bytes = other_processes_bytes;
    row.used_bytes = process_bytes + other_processes_bytes;
    row.firmware_bytes = 0;
    row.before_event = static_cast<std::uint32_t>(events_.size());
    store_.add_sample(row);
  }
  std::vector<OomReport> find_all() {
    store_.set_origin(origin_);
    store_.add_events(0, std::move(events_));
    DeviceRecord& record = *store_.devices().at(0);
    const DeviceReplay replay = replay_device(record, store_.settings(), store_.origin());
    return find_ooms(store_, record, replay, 3);
  }
  OomReport find() {
    std::vector<OomReport> ooms = find_all();
    EXPECT_EQ(ooms.size(), 1U);
    return ooms.empty() ? OomReport() : ooms.front();
  }
  static bool has(const OomReport& oom, OomDoubt doubt) {
    return std::find(oom.doubts.begin(), oom.doubts.end(), doubt) != oom.doubts.end();
  }
  static bool contributes(const OomReport& oom, OomCause cause) {
    return std::find(oom.contributing.begin(), oom.contributing.end(), cause) !=
           oom.contributing.end();
  }

  Store store_;
  Origin origin_;
  EventColumns events_;

 private:
  void add(Action action, std::uint64_t address, std::uint64_t size_bytes, StackId stack) {
    events_.push_back({action, address, size_bytes, 0, kUnknownTime, stack, {}, {}, kNoPool, {}});
  }
  std::uint64_t next_address_ = 0x7f0000000000;
  std::vector<std::uint64_t> rest_;
};

TEST_F(Oom, of_a_request_larger_than_the_card_is_reported_whatever_else_was_there) {
  state_card();
  allocate(kGiB);
  run_out(100 * kGiB, 78 * kGiB);
  const OomReport oom = find();
  EXPECT_EQ(oom.cause, OomCause::larger_than_card);
  EXPECT_TRUE(oom.is_proven());
  EXPECT_EQ(oom.card_bytes, kTotal);
}

TEST_F(Oom, of_a_request_that_no_card_could_serve_needs_no_size_of_the_card) {
  allocate(kGiB);
  run_out(std::uint64_t{1} << 50U, 78 * kGiB);
  EXPECT_EQ(find().cause, OomCause::larger_than_card);
}

TEST_F(Oom, under_a_stated_limit_says_exactly_how_much_is_short) {
  state_card();
  state_fact("device 0 memory_fraction", "0.25");
  allocate(18 * kGiB);
  run_out(4 * kGiB, 60 * kGiB);
  const OomReport oom = find();
  EXPECT_EQ(oom.cause, OomCause::limit);
  EXPECT_TRUE(oom.is_proven());
  EXPECT_TRUE(oom.is_limit_stated);
  ASSERT_TRUE(oom.limit);
  EXPECT_EQ(oom.limit->low, 20 * kGiB);
  EXPECT_EQ(oom.limit->high, 20 * kGiB);
  ASSERT_TRUE(oom.short_bytes);
  EXPECT_TRUE(oom.short_bytes->is_exact());
  EXPECT_EQ(oom.short_bytes->high, 2 * kGiB);
  EXPECT_TRUE(contributes(oom, OomCause::shortage));
}

TEST_F(Oom, under_a_limit_that_was_set_after_the_start_takes_the_one_at_the_end) {
  state_card();
  state_fact("device 0 memory_fraction", "1.0");
  state_fact("device 0 memory_fraction_at_end", "0.25");
  allocate(18 * kGiB);
  run_out(4 * kGiB, 60 * kGiB);
  const OomReport oom = find();
  EXPECT_EQ(oom.cause, OomCause::limit);
  EXPECT_TRUE(oom.is_limit_stated);
}

TEST_F(Oom, under_a_limit_that_nothing_states_gives_its_range) {
  allocate(18 * kGiB);
  run_out(4 * kGiB, 60 * kGiB);
  const OomReport oom = find();
  EXPECT_EQ(oom.cause, OomCause::limit);
  EXPECT_FALSE(oom.is_limit_stated);
  ASSERT_TRUE(oom.limit);
  EXPECT_EQ(oom.limit->low, 18 * kGiB);
  EXPECT_EQ(oom.limit->high, 22 * kGiB - 1);
  ASSERT_TRUE(oom.short_bytes);
  EXPECT_EQ(oom.short_bytes->low, 1U);
  EXPECT_EQ(oom.short_bytes->high, 4 * kGiB);
}

TEST_F(Oom, of_a_line_that_keeps_all_it_is_given_is_a_shortage_under_any_limit) {
  const StackId hoarder = line(7);
  for (int count = 0; count < 10; ++count) allocate(kGiB, hoarder);
  run_out(kGiB, 60 * kGiB, hoarder);
  const OomReport oom = find();
  EXPECT_EQ(oom.cause, OomCause::shortage);
  EXPECT_EQ(oom.hoarded_blocks, 10U);
  EXPECT_TRUE(contributes(oom, OomCause::limit));
  ASSERT_TRUE(oom.short_bytes);
  EXPECT_EQ(oom.short_bytes->high, kGiB);
}

TEST_F(Oom, names_other_processes_where_they_hold_what_would_have_sufficed) {
  state_card();
  state_fact("device 0 memory_fraction", "1.0");
  allocate(10 * kGiB);
  sample(11 * kGiB, 68 * kGiB);
  run_out(4 * kGiB, kGiB);
  const OomReport oom = find();
  EXPECT_EQ(oom.cause, OomCause::other_processes);
  EXPECT_TRUE(oom.is_proven());
  EXPECT_EQ(oom.other_processes_bytes, 68 * kGiB);
  ASSERT_TRUE(oom.short_bytes);
  EXPECT_EQ(oom.short_bytes->high, 3 * kGiB);
}

TEST_F(Oom, names_what_the_process_holds_outside_of_the_pool) {
  state_card();
  allocate(10 * kGiB);
  sample(79 * kGiB, 0);
  run_out(4 * kGiB, kGiB);
  const OomReport oom = find();
  EXPECT_EQ(oom.cause, OomCause::outside_pool);
  EXPECT_TRUE(oom.is_proven());
  EXPECT_EQ(oom.outside_bytes, 69 * kGiB);
}

TEST_F(Oom, of_a_full_card_is_a_shortage_though_the_context_takes_its_share) {
  state_card();
  allocate(77 * kGiB);
  sample(77 * kGiB + 600 * kMiB, 0);
  run_out(4 * kGiB, 3 * kGiB - 600 * kMiB);
  const OomReport oom = find();
  EXPECT_EQ(oom.cause, OomCause::shortage);
  EXPECT_TRUE(oom.is_proven());
  ASSERT_TRUE(oom.short_bytes);
  EXPECT_EQ(oom.short_bytes->high, kGiB + 600 * kMiB);
}

TEST_F(Oom, without_a_sample_only_supposes_who_held_the_card) {
  state_card();
  allocate(10 * kGiB);
  run_out(4 * kGiB, kGiB);
  const OomReport oom = find();
  EXPECT_EQ(oom.cause, OomCause::other_processes);
  EXPECT_TRUE(has(oom, OomDoubt::processes));
}

TEST_F(Oom, of_which_the_card_is_not_known_says_so) {
  allocate(10 * kGiB);
  run_out(4 * kGiB, kGiB);
  const OomReport oom = find();
  EXPECT_EQ(oom.cause, OomCause::shortage);
  EXPECT_TRUE(has(oom, OomDoubt::card));
  ASSERT_TRUE(oom.short_bytes);
  EXPECT_EQ(oom.short_bytes->high, 3 * kGiB);
}

TEST_F(Oom, with_figures_that_cannot_be_is_no_proof_and_no_crash) {
  state_fact("torch", "2.11.0");
  state_fact("device 0 total_bytes", "18446744073709551615");
  state_fact("device 0 memory_fraction", "nan");
  run_out(kUnknownBytes, kUnknownBytes);
  run_out(kGiB, kUnknownBytes);
  run_out(0, 0);
  DeviceSample row;
  store_.add_sample(row);
  const std::vector<OomReport> ooms = find_all();
  ASSERT_EQ(ooms.size(), 3U);
  EXPECT_EQ(ooms[0].cause, OomCause::larger_than_card);
  EXPECT_FALSE(ooms[1].is_proven());
  EXPECT_FALSE(ooms[1].short_bytes);
}

TEST_F(Oom, with_enough_free_in_a_private_pool_names_the_pool) {
  state_card();
  allocate(10 * kGiB);
  free_in_private_pool(50 * kGiB);
  run_out(30 * kGiB, 20 * kGiB);
  const OomReport oom = find();
  EXPECT_EQ(oom.cause, OomCause::private_pool);
  EXPECT_TRUE(oom.is_proven());
  EXPECT_EQ(oom.memory.private_pool_bytes, 50 * kGiB);
}

TEST_F(Oom, of_a_true_shortage_is_not_blamed_on_a_small_private_pool) {
  state_card();
  allocate(70 * kGiB);
  free_in_private_pool(kGiB);
  run_out(30 * kGiB, 9 * kGiB);
  EXPECT_NE(find().cause, OomCause::private_pool);
}

TEST_F(Oom, with_enough_freed_that_a_stream_still_uses_names_the_stream) {
  state_card();
  allocate(10 * kGiB);
  free_later(50 * kGiB);
  run_out(30 * kGiB, 20 * kGiB);
  const OomReport oom = find();
  EXPECT_EQ(oom.cause, OomCause::deferred_frees);
  EXPECT_EQ(oom.memory.waiting_bytes, 50 * kGiB);
  ASSERT_TRUE(oom.short_bytes);
  EXPECT_EQ(oom.short_bytes->high, 10 * kGiB);
}

TEST_F(Oom, of_one_request_far_larger_than_all_before_names_the_request) {
  state_card();
  for (int count = 0; count < 10; ++count) allocate(kGiB);
  sample(10 * kGiB, 0);
  run_out(75 * kGiB, 70 * kGiB);
  const OomReport oom = find();
  EXPECT_EQ(oom.cause, OomCause::single_request);
  EXPECT_EQ(oom.largest_earlier_bytes, kGiB);
  EXPECT_TRUE(contributes(oom, OomCause::shortage));
}

TEST_F(Oom, of_usual_requests_is_a_shortage) {
  state_card();
  for (int count = 0; count < 10; ++count) allocate(7 * kGiB, line(1));
  sample(70 * kGiB, 0);
  run_out(12 * kGiB, 10 * kGiB);
  EXPECT_EQ(find().cause, OomCause::shortage);
}

TEST_F(Oom, is_blamed_on_growth_only_if_it_would_have_fit_without) {
  Growth growth;
  growth.is_growing = true;
  growth.since_step = 2;
  growth.bytes_per_step = static_cast<double>(kGiB);
  growth.grown_bytes = 100 * kGiB;
  OomReport oom;
  oom.short_bytes = ByteRange{4 * kGiB, 4 * kGiB};
  blame_growth(oom, growth, 5);
  EXPECT_EQ(oom.cause, OomCause::shortage);
  EXPECT_EQ(oom.grown_bytes, 3 * kGiB);
  blame_growth(oom, growth, 6);
  EXPECT_EQ(oom.cause, OomCause::growth);
  EXPECT_TRUE(contributes(oom, OomCause::shortage));
}

TEST_F(Oom, is_blamed_on_what_leaks_without_steps_if_it_came_at_the_end) {
  DeviceLeaks leaks;
  leaks.verdict = LeakVerdict::leak;
  leaks.leaks.resize(2);
  for (LeakSite& leak : leaks.leaks) leak.bytes = 3 * kGiB;
  OomReport oom;
  oom.event = 990;
  oom.short_bytes = ByteRange{4 * kGiB, 4 * kGiB};
  OomReport early = oom;
  early.event = 500;
  blame_leaks(early, leaks, 1000);
  EXPECT_EQ(early.cause, OomCause::shortage);
  leaks.verdict = LeakVerdict::warm_up;
  blame_leaks(oom, leaks, 1000);
  EXPECT_EQ(oom.cause, OomCause::shortage);
  leaks.verdict = LeakVerdict::leak;
  blame_leaks(oom, leaks, 1000);
  EXPECT_EQ(oom.cause, OomCause::growth);
  EXPECT_EQ(oom.grown_bytes, 6 * kGiB);
}

TEST_F(Oom, with_gaps_that_would_have_sufficed_in_one_piece_is_proven_though_no_setting_helps) {
  state_card();
  state_fact("device 0 memory_fraction", "0.05");  // 4 GiB
  // Segments of 20 MiB, of which 5 MiB are in use: nothing can be returned, not even pages.
  for (int count = 0; count < 190; ++count) allocate_one_of_four(5 * kMiB);
  free_rest(5 * kMiB);
  run_out(2 * kGiB, 70 * kGiB);
  const OomReport oom = find();
  EXPECT_EQ(oom.cause, OomCause::fragmentation);
  EXPECT_TRUE(oom.is_proven());
  EXPECT_TRUE(oom.surviving_confs.empty());
  EXPECT_EQ(oom.remedy_doubts, std::vector<OomDoubt>{OomDoubt::no_setting});
  EXPECT_EQ(oom.memory.free_bytes, 190 * 15 * kMiB);
  EXPECT_LT(oom.largest_free_bytes, oom.wanted_bytes);
}

TEST_F(Oom, in_gaps_is_blamed_on_growth_only_if_that_took_more_than_the_gaps) {
  Growth growth;
  growth.is_growing = true;
  growth.since_step = 2;
  growth.bytes_per_step = static_cast<double>(kGiB);
  growth.grown_bytes = 100 * kGiB;
  OomReport oom;
  oom.cause = OomCause::fragmentation;
  oom.doubts = {OomDoubt::limit};
  oom.remedy_doubts = {OomDoubt::no_setting};
  oom.wanted_bytes = kGiB;
  oom.memory.free_bytes = 4 * kGiB;
  blame_growth(oom, growth, 5);
  EXPECT_EQ(oom.cause, OomCause::fragmentation);
  EXPECT_FALSE(oom.is_proven());
  blame_growth(oom, growth, 6);
  EXPECT_EQ(oom.cause, OomCause::growth);
  EXPECT_TRUE(contributes(oom, OomCause::fragmentation));
  EXPECT_TRUE(oom.is_proven());
  EXPECT_TRUE(oom.remedy_doubts.empty());
}

}  // namespace
}  // namespace gpumemprof
