// What the verification run finds in handwritten recordings.
#include "sim/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/simulate.h"

namespace gpumemprof::sim {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::Not;

constexpr std::uint64_t kBase = 0x7000'0000'0000;

class Recorder {
 public:
  Recorder& add(Action action, std::uint64_t offset, std::uint64_t bytes, std::size_t stack = 0) {
    Event event;
    event.action = action;
    event.address = action == Action::oom ? offset : kBase + offset;
    event.size_bytes = bytes;
    event.time_ns = static_cast<std::int64_t>(events.size()) * 50'000;
    if (stack != 0) event.stack = StackId(stack);
    events.push_back(event);
    return *this;
  }
  Recorder& free(std::uint64_t offset, std::uint64_t bytes, std::size_t stack = 0) {
    add(Action::free_requested, offset, bytes, stack);
    add(Action::free_completed, offset, bytes, stack);
    events.time_ns.back() = events.time_ns[events.size() - 2];  // the same call
    return *this;
  }
  [[nodiscard]] RecordedRun run() const {
    RecordedRun run;
    run.events = &events;
    return run;
  }

  EventColumns events;
};

VerifyOptions verification_of_2_11(std::optional<MemoryLimit> limit = MemoryLimit{}) {
  VerifyOptions options;
  options.rules = rules_for({2, 11});
  options.limit = limit;
  return options;
}

MemoryLimit allowed(std::uint64_t bytes) {
  MemoryLimit limit;
  limit.allowed_bytes = bytes;
  return limit;
}

std::vector<RequestKind> kinds_of(const RequestColumns& requests) {
  return {requests.kind.begin(), requests.kind.end()};
}

TEST(VerifyTest, a_segment_returned_without_need_was_an_empty_cache) {
  Recorder recorder;
  recorder.add(Action::segment_alloc, 0, 30 * kMiB).add(Action::alloc, 0, 30 * kMiB);
  recorder.free(0, 30 * kMiB).add(Action::segment_free, 0, 30 * kMiB);
  recorder.add(Action::segment_alloc, 64 * kMiB, 30 * kMiB);
  recorder.add(Action::alloc, 64 * kMiB, 30 * kMiB);
  const Verification verified = verify(recorder.run(), verification_of_2_11()).value();
  EXPECT_TRUE(verified.is_exact());
  EXPECT_EQ(verified.empty_caches, 1U);
  EXPECT_THAT(kinds_of(verified.requests),
              ElementsAre(RequestKind::allocate, RequestKind::free, RequestKind::empty_cache,
                          RequestKind::allocate));
}

TEST(VerifyTest, a_segment_returned_by_the_retry_is_not_an_empty_cache) {
  Recorder recorder;
  recorder.add(Action::segment_alloc, 0, 30 * kMiB).add(Action::alloc, 0, 30 * kMiB);
  recorder.free(0, 30 * kMiB).add(Action::segment_free, 0, 30 * kMiB);
  recorder.add(Action::segment_alloc, 64 * kMiB, 40 * kMiB);
  recorder.add(Action::alloc, 64 * kMiB, 40 * kMiB);
  const Verification verified =
      verify(recorder.run(), verification_of_2_11(allowed(60 * kMiB))).value();
  EXPECT_TRUE(verified.is_exact());
  EXPECT_EQ(verified.empty_caches, 0U);
  EXPECT_EQ(verified.counters.num_alloc_retries, 1U);
  EXPECT_THAT(kinds_of(verified.requests), Not(Contains(RequestKind::empty_cache)));
}

TEST(VerifyTest, an_empty_cache_between_frees_is_recognised) {
  Recorder recorder;
  recorder.add(Action::segment_alloc, 0, 30 * kMiB).add(Action::alloc, 0, 30 * kMiB);
  recorder.add(Action::segment_alloc, 64 * kMiB, 30 * kMiB)
      .add(Action::alloc, 64 * kMiB, 30 * kMiB);
  recorder.free(0, 30 * kMiB).add(Action::segment_free, 0, 30 * kMiB).free(64 * kMiB, 30 * kMiB);
  const Verification verified = verify(recorder.run(), verification_of_2_11()).value();
  EXPECT_TRUE(verified.is_exact());
  EXPECT_THAT(kinds_of(verified.requests),
              ElementsAre(RequestKind::allocate, RequestKind::allocate, RequestKind::free,
                          RequestKind::empty_cache, RequestKind::free));
}

TEST(VerifyTest, a_deferred_free_becomes_a_request_and_its_completion) {
  Recorder recorder;
  recorder.add(Action::segment_alloc, 0, 30 * kMiB).add(Action::alloc, 0, 30 * kMiB);
  recorder.add(Action::free_requested, 0, 30 * kMiB);
  recorder.add(Action::segment_alloc, 64 * kMiB, 30 * kMiB)
      .add(Action::alloc, 64 * kMiB, 30 * kMiB);
  recorder.add(Action::free_completed, 0, 30 * kMiB).add(Action::alloc, 0, 30 * kMiB);
  const Verification verified = verify(recorder.run(), verification_of_2_11()).value();
  EXPECT_TRUE(verified.is_exact());
  EXPECT_THAT(kinds_of(verified.requests),
              ElementsAre(RequestKind::allocate, RequestKind::request_free, RequestKind::allocate,
                          RequestKind::complete_free, RequestKind::allocate));
}

TEST(VerifyTest, stacks_tell_a_retry_from_an_empty_cache_and_prove_a_limit) {
  Recorder recorder;
  recorder.add(Action::segment_alloc, 0, 30 * kMiB, 1).add(Action::alloc, 0, 30 * kMiB, 1);
  recorder.free(0, 30 * kMiB, 2).add(Action::segment_free, 0, 30 * kMiB, 3);
  recorder.add(Action::segment_alloc, 64 * kMiB, 40 * kMiB, 3);
  recorder.add(Action::alloc, 64 * kMiB, 40 * kMiB, 3);
  const Verification verified = verify(recorder.run(), verification_of_2_11({})).value();
  ASSERT_TRUE(verified.inferred_limit.has_value());
  const InferredLimit inferred = verified.inferred_limit.value_or(InferredLimit());
  EXPECT_FALSE(inferred.is_from_oom);
  EXPECT_EQ(inferred.low_bytes, 40 * kMiB);
  EXPECT_EQ(inferred.high_bytes, 70 * kMiB - 1);
  EXPECT_TRUE(verified.is_exact());
  EXPECT_EQ(verified.counters.num_alloc_retries, 1U);
}

TEST(VerifyTest, without_stacks_or_ooms_no_limit_is_inferred) {
  Recorder recorder;
  recorder.add(Action::segment_alloc, 0, 30 * kMiB).add(Action::alloc, 0, 30 * kMiB);
  recorder.free(0, 30 * kMiB).add(Action::segment_free, 0, 30 * kMiB);
  recorder.add(Action::segment_alloc, 64 * kMiB, 40 * kMiB);
  recorder.add(Action::alloc, 64 * kMiB, 40 * kMiB);
  const Verification verified = verify(recorder.run(), verification_of_2_11({})).value();
  EXPECT_FALSE(verified.inferred_limit.has_value());
  EXPECT_EQ(verified.empty_caches, 1U);
}

TEST(VerifyTest, a_full_device_is_inferred_from_what_it_had_free) {
  Recorder recorder;
  recorder.add(Action::segment_alloc, 0, 30 * kMiB).add(Action::alloc, 0, 30 * kMiB);
  recorder.add(Action::oom, 10 * kMiB, 40 * kMiB);
  const Verification verified = verify(recorder.run(), verification_of_2_11({})).value();
  EXPECT_EQ(verified.limit.device_bytes, 40 * kMiB);
  EXPECT_EQ(verified.limit.allowed_bytes, kNoLimit);
  EXPECT_TRUE(verified.is_exact());
  EXPECT_THAT(kinds_of(verified.requests),
              ElementsAre(RequestKind::allocate, RequestKind::failed_allocate));
}

TEST(VerifyTest, a_wrong_placement_is_counted_once_and_then_followed) {
  Recorder recorder;
  recorder.add(Action::segment_alloc, 0, 2 * kMiB).add(Action::alloc, 0, 512);
  recorder.add(Action::alloc, 512, 512).add(Action::alloc, 1024, 512).add(Action::alloc, 1536, 512);
  recorder.free(0, 512).free(1024, 512);
  recorder.add(Action::alloc, 1024, 512);  // torch would take the lower address
  recorder.add(Action::alloc, 0, 512);
  const Verification verified = verify(recorder.run(), verification_of_2_11()).value();
  EXPECT_EQ(verified.address_mismatches, 1U);
  EXPECT_EQ(verified.first_mismatch_event, 9U);
}

TEST(VerifyTest, frees_of_unknown_memory_and_frees_never_recorded_are_counted) {
  Recorder recorder;
  recorder.free(5 * kMiB, 512);
  recorder.add(Action::segment_alloc, 0, 2 * kMiB).add(Action::alloc, 0, 512);
  recorder.add(Action::alloc, 0, 512);
  const Verification verified = verify(recorder.run(), verification_of_2_11()).value();
  EXPECT_EQ(verified.unknown_frees, 1U);
  EXPECT_EQ(verified.implied_frees, 1U);
}

TEST(VerifyTest, a_history_that_starts_late_begins_with_what_was_there) {
  std::vector<SegmentState> segments(2);
  segments[0].address = kBase;
  segments[0].size_bytes = 20 * kMiB;
  segments[1].address = kBase + 64 * kMiB;
  segments[1].size_bytes = 40 * kMiB;
  segments[1].is_expandable = true;
  const std::vector<BlockState> blocks = {
      {kBase, 4 * kMiB, 4 * kMiB, BlockStateKind::active_allocated, {}},
      {kBase + 4 * kMiB, 6 * kMiB, 0, BlockStateKind::inactive, {}},
      {kBase + 10 * kMiB, 10 * kMiB, 10 * kMiB - 5, BlockStateKind::active_pending_free, {}},
      {kBase + 64 * kMiB, 30 * kMiB, 30 * kMiB, BlockStateKind::active_allocated, {}},
      {kBase + 94 * kMiB, 10 * kMiB, 0, BlockStateKind::inactive, {}}};
  const std::vector<std::uint32_t> first_block = {0, 3, 5};
  Recorder recorder;
  recorder.add(Action::alloc, 4 * kMiB, 5 * kMiB);
  recorder.add(Action::free_completed, 10 * kMiB, 10 * kMiB - 5);
  recorder.add(Action::alloc, 10 * kMiB, 10 * kMiB);
  recorder.free(64 * kMiB, 30 * kMiB);
  RecordedRun run = recorder.run();
  run.start = {segments, first_block, blocks};
  const Verification verified = verify(run, verification_of_2_11()).value();
  EXPECT_TRUE(verified.is_exact()) << verified.first_mismatch_event;
  EXPECT_EQ(verified.unknown_frees, 0U);
  EXPECT_EQ(verified.counters.reserved_bytes.current(), 60 * kMiB);
  EXPECT_EQ(verified.requests.allocation_count(), 5U);
  EXPECT_EQ(verified.requests.event[0], kNoEvent);
}

TEST(VerifyTest, a_start_whose_blocks_leave_a_hole_is_refused) {
  std::vector<SegmentState> segments(1);
  segments[0].address = kBase;
  segments[0].size_bytes = 20 * kMiB;
  const std::vector<BlockState> blocks = {
      {kBase + 512, 20 * kMiB, 0, BlockStateKind::inactive, {}}};
  const std::vector<std::uint32_t> first_block = {0, 1};
  Recorder recorder;
  RecordedRun run = recorder.run();
  run.start = {segments, first_block, blocks};
  const Result<Verification> result = verify(run, verification_of_2_11());
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::bad_input);
}

TEST(VerifyTest, events_before_the_first_exact_one_are_left_out) {
  Recorder recorder;
  recorder.add(Action::alloc, 77 * kMiB, 512);
  recorder.add(Action::segment_alloc, 0, 2 * kMiB).add(Action::alloc, 0, 512);
  RecordedRun run = recorder.run();
  run.first_event = 1;
  const Verification verified = verify(run, verification_of_2_11()).value();
  EXPECT_TRUE(verified.is_exact());
  EXPECT_EQ(verified.allocations, 1U);
}

TEST(VerifyTest, a_private_pool_is_released_when_its_memory_is_returned) {
  Recorder recorder;
  recorder.add(Action::segment_alloc, 0, 30 * kMiB).add(Action::alloc, 0, 30 * kMiB);
  recorder.add(Action::segment_alloc, 64 * kMiB, 30 * kMiB)
      .add(Action::alloc, 64 * kMiB, 30 * kMiB);
  recorder.free(0, 30 * kMiB).free(64 * kMiB, 30 * kMiB);
  recorder.add(Action::segment_free, 64 * kMiB, 30 * kMiB);  // only the pool's
  recorder.add(Action::alloc, 0, 30 * kMiB);
  const std::vector<PoolId> pools = {{0, 0}, {0, 1}};
  const std::vector<std::uint32_t> pool_of_event = {0, 0, 1, 1, 0, 0, 0, 0, 0, 0};
  RecordedRun run = recorder.run();
  run.pools = pools;
  run.pool_of_event = pool_of_event;
  const Verification verified = verify(run, verification_of_2_11()).value();
  EXPECT_TRUE(verified.is_exact());
  EXPECT_EQ(verified.empty_caches, 0U);
  EXPECT_THAT(kinds_of(verified.requests), Contains(RequestKind::empty_pool));
}

}  // namespace
}  // namespace gpumemprof::sim
