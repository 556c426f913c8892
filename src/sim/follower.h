// Follower: walks through a recorded run in step with a simulated allocator.
//
// Events come in bursts: what an allocation made the allocator do (frees that completed, segments
// returned and taken) precedes the allocation itself. The follower holds back a burst until the
// event that explains it.
#pragma once

#include <cstdint>
#include <vector>

#include "base/flat_map.h"
#include "sim/verify.h"

namespace gpumemprof::sim {

// Places new segments where the recording has them.
class RecordedAddresses final : public AddressSource {
 public:
  void offer(Action action, std::uint64_t address, std::uint64_t size_bytes);
  void clear() { offers_.clear(); }
  std::uint64_t place_segment(std::uint64_t size_bytes) override;
  std::uint64_t place_range(std::uint64_t size_bytes) override;

 private:
  struct Offer {
    Action action;
    std::uint64_t address;
    std::uint64_t size_bytes;
  };
  std::vector<Offer> offers_;
  RisingAddresses invented_;  // for what the recording does not have: a mismatch
};

class Follower {
 public:
  Follower(const RecordedRun& run, const VerifyOptions& options, const MemoryLimit& limit);
  Status adopt_start();
  void follow();
  void compare_end();
  Verification take_result() &&;

  // For a run that comes part by part (streamed.h): its owner appends events to the run's columns.
  void begin_stream() { is_stream_ = true; }
  // Reads what was appended; the last two rows wait for what comes after them.
  void follow_more();
  // The first rows that are no longer needed: rows count from behind them now, so the owner removes
  // them.
  std::uint32_t forget_rows();
  // The requests so far. Once they are forgotten, ids of allocations that are gone are used again.
  [[nodiscard]] const RequestColumns& requests() const { return result_.requests; }
  void forget_requests();

 private:
  using Calls = std::vector<std::uint32_t>;  // event rows

  // Why memory was returned to the device.
  enum class Cause : std::uint8_t { program, allocation, retry };

  // Reading events (follower.cpp).
  void read(std::uint32_t row);
  void read_free_requested(std::uint32_t row);
  void read_free_completed(std::uint32_t row);
  [[nodiscard]] bool completes_at_once(std::uint32_t row) const;
  void read_allocation(std::uint32_t row, bool failed);
  void place(std::uint32_t row, AllocationId id, StreamPoolId stream_pool, bool failed);
  void forget_address(std::uint32_t row);
  AllocationId new_allocation(std::uint64_t requested_bytes, StreamPoolId stream_pool);
  void request(RequestKind kind, std::uint32_t operand, std::uint32_t row);
  void add_earlier_allocation(const BlockState& block, StreamPoolId stream_pool);
  StreamPoolId stream_pool_for(const StreamPoolKey& key);
  StreamPoolId stream_pool_of(std::uint32_t row);
  PoolIndex pool_of(std::uint32_t pool_row);

  // Explaining bursts (follower_burst.cpp).
  [[nodiscard]] bool has_releases() const { return !releases_.empty(); }
  void settle_burst_without_allocation();
  void settle_burst_before(std::uint32_t row, std::uint64_t requested_bytes,
                           StreamPoolId stream_pool);
  // Whether a retry preceded the allocation, or is left to the allocator to perform.
  enum class Retry : std::uint8_t { unlikely, possible, left_to_allocator };
  Retry prepare_retry(std::uint32_t row, std::uint64_t requested_bytes, StreamPoolId stream_pool);
  void apply_completions(std::size_t count);
  [[nodiscard]] bool is_planned(const ReleasePlan& plan) const;
  [[nodiscard]] std::size_t count_explicit(std::uint32_t row) const;
  void release_as_recorded(std::size_t count, Cause cause);
  bool release_private_pools(std::span<const std::uint32_t> rows, Cause cause);
  [[nodiscard]] PoolIndex private_pool_at(std::uint64_t address) const;
  void compare_calls(Calls& recorded, std::size_t count);
  void note_mismatch(std::uint32_t row);
  void compare_end_blocks();

  RecordedRun run_;
  const EventColumns& events_;
  VerifyOptions options_;
  RecordedAddresses addresses_;
  Allocator allocator_;
  Verification result_;
  FlatMap<std::uint32_t> allocation_at_;           // recorded address → allocation live there
  std::uint32_t accounted_completion_ = kNoEvent;  // the event that a free already accounts for
  std::vector<PoolIndex> pool_of_row_;
  std::uint32_t last_stream_ = 0;
  std::uint32_t last_pool_row_ = kNoPool;
  StreamPoolId last_stream_pool_;
  std::uint32_t next_row_ = 0;

  // Of a stream.
  bool is_stream_ = false;
  std::uint32_t rows_before_ = 0;       // that were forgotten
  std::vector<AllocationId> gone_;      // since requests were last forgotten
  std::vector<AllocationId> reusable_;  // before

  // The burst.
  Calls completions_;  // deferred frees that completed
  std::size_t completions_before_first_release_ = 0;
  std::size_t completions_before_release_ = 0;  // before the last one
  Calls releases_;                              // segment_free, segment_unmap
  Calls fresh_;                                 // segment_alloc, segment_map
};

}  // namespace gpumemprof::sim
