// Explaining why memory was returned to the device: by the program, or by the allocator itself.
#include <algorithm>
#include <tuple>

#include "sim/follower.h"

namespace gpumemprof::sim {
namespace {

using Call = std::tuple<Action, std::uint64_t, std::uint64_t>;

std::vector<Call> sorted_calls(const std::vector<DeviceCall>& calls) {
  std::vector<Call> sorted;
  for (const DeviceCall& call : calls) {
    if (call.action != Action::free_completed)
      sorted.emplace_back(call.action, call.address, call.size_bytes);
  }
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

std::vector<Call> sorted_rows(const EventColumns& events, std::span<const std::uint32_t> rows) {
  std::vector<Call> sorted;
  for (const std::uint32_t row : rows) {
    sorted.emplace_back(events.action[row], events.address[row], events.size_bytes[row]);
  }
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

}  // namespace

// Outside an allocation only the program returns memory. New segments stay: their allocation is
// still to come (with release_lock_on_cudamalloc another thread's events can come in between).
void Follower::settle_burst_without_allocation() {
  if (completions_.empty() && releases_.empty()) return;
  apply_completions(completions_before_release_);
  if (has_releases()) release_as_recorded(releases_.size(), Cause::program);
  apply_completions(completions_.size());
}

void Follower::settle_burst_before(std::uint32_t row, std::uint64_t requested_bytes,
                                   StreamPoolId stream_pool) {
  const std::size_t explicit_count = count_explicit(row);
  Retry retry = Retry::unlikely;
  if (explicit_count == 0) retry = prepare_retry(row, requested_bytes, stream_pool);
  if (retry == Retry::left_to_allocator) return;
  apply_completions(completions_before_release_);
  const bool has_stacks = !events_.stack[row].is_none();
  if (explicit_count > 0) {
    release_as_recorded(explicit_count, Cause::program);
  } else if (has_releases() && !is_planned(allocator_.plan_release(requested_bytes, stream_pool))) {
    // With stacks, we know the allocation did this, for a reason the given settings do not explain.
    Cause cause = has_stacks ? Cause::allocation : Cause::program;
    if (retry == Retry::possible) cause = Cause::retry;
    release_as_recorded(releases_.size(), cause);
  }
  apply_completions(completions_.size());
}

// The retry waits for every stream, so frees complete in the middle of an allocation. Completing
// them before it could make a cached block fit that did not fit then. A retry is possible only
// where the allocation got new memory or none, and where nothing is pending after it.
Follower::Retry Follower::prepare_retry(std::uint32_t row, std::uint64_t requested_bytes,
                                        StreamPoolId stream_pool) {
  const bool got_cached_block = fresh_.empty() && events_.action[row] == Action::alloc;
  if (got_cached_block || completions_.size() != allocator_.pending_count()) {
    return Retry::unlikely;
  }
  if (!allocator_.plan_release(requested_bytes, stream_pool).empties_cache) return Retry::unlikely;
  release_private_pools(releases_, Cause::retry);
  std::vector<AllocationId> order;
  for (const std::uint32_t completion : completions_) {
    const std::uint32_t* id = allocation_at_.find(events_.address[completion]);
    if (id == nullptr) return Retry::unlikely;
    order.emplace_back(*id);
  }
  // Garbage collection and the return of oversize blocks come before the retry and see what had
  // completed when the allocation began. That cannot be distinguished from what completed in the
  // retry, unless the request would then have fit.
  const std::size_t at_start =
      has_releases() ? completions_before_first_release_ : completions_.size();
  if (at_start > 0 &&
      !allocator_.fits_after(std::span(order).first(at_start), requested_bytes, stream_pool)) {
    apply_completions(at_start);
    order.erase(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(at_start));
    if (!allocator_.plan_release(requested_bytes, stream_pool).empties_cache)
      return Retry::possible;
  }
  for (std::size_t index = 0; index < completions_.size(); ++index) {
    request(RequestKind::complete_free, order[index].index, completions_[index]);
    allocation_at_.erase(events_.address[completions_[index]]);
  }
  allocator_.complete_first(order);
  completions_.clear();
  completions_before_release_ = completions_before_first_release_ = 0;
  return Retry::left_to_allocator;
}

// How many of the releases the program asked for, as far as stacks show: those not made on the
// allocation's behalf.
std::size_t Follower::count_explicit(std::uint32_t row) const {
  const StackId stack = events_.stack[row];
  if (stack.is_none()) return 0;
  std::size_t count = 0;
  while (count < releases_.size() && events_.stack[releases_[count]] != stack) ++count;
  return count;
}

bool Follower::is_planned(const ReleasePlan& plan) const {
  std::vector<DeviceCall> expected;
  if (plan.empties_cache) {
    expected = allocator_.plan_empty_cache();
  } else {
    for (const BlockId id : plan.blocks) {
      const Block& block = allocator_.block(id);
      expected.push_back({Action::segment_free, block.address, block.size_bytes, 0, kDefaultPool});
    }
  }
  return sorted_calls(expected) == sorted_rows(events_, releases_);
}

void Follower::apply_completions(std::size_t count) {
  for (std::size_t index = 0; index < count; ++index) {
    const std::uint32_t row = completions_[index];
    const std::uint32_t* found = allocation_at_.find(events_.address[row]);
    if (found == nullptr) {
      ++result_.unknown_frees;
      continue;
    }
    const AllocationId id(*found);
    // A free whose request was not recorded is still a free.
    if (allocator_.is_live(id)) {
      allocator_.free(id);
      allocator_.complete_free(id);
    }
    request(RequestKind::complete_free, id.index, row);
    allocation_at_.erase(events_.address[row]);
  }
  completions_.erase(completions_.begin(),
                     completions_.begin() + static_cast<std::ptrdiff_t>(count));
  completions_before_release_ -= std::min(completions_before_release_, count);
  completions_before_first_release_ -= std::min(completions_before_first_release_, count);
}

// Makes the first count releases happen, as one empty_cache where that explains them.
void Follower::release_as_recorded(std::size_t count, Cause cause) {
  const std::uint32_t row = releases_[0];
  const std::span<const std::uint32_t> rows(releases_.data(), count);
  allocator_.clear_calls();
  if (release_private_pools(rows, cause)) {
    compare_calls(releases_, count);
    return;
  }
  const std::vector<Call> recorded = sorted_rows(events_, rows);
  const std::vector<Call> possible = sorted_calls(allocator_.plan_empty_cache());
  const bool is_part =
      recorded != possible &&
      std::includes(possible.begin(), possible.end(), recorded.begin(), recorded.end()) &&
      std::all_of(rows.begin(), rows.end(), [this](std::uint32_t release) {
        return events_.action[release] == Action::segment_free;
      });
  if (is_part) {
    // Some of what could be returned, but not all: nothing known does that. Count it and do as
    // recorded.
    for (const std::uint32_t release : rows)
      allocator_.release_segment_at(events_.address[release]);
    result_.segment_mismatches += count;
    note_mismatch(row);
  } else {
    if (cause == Cause::retry) {
      allocator_.empty_cache_as_retry();
    } else {
      allocator_.empty_cache();
    }
    if (cause == Cause::program) {
      request(RequestKind::empty_cache, 0, row);
      ++result_.empty_caches;
    }
  }
  compare_calls(releases_, count);
}

// A private pool's memory is returned only when the pool is no longer in use. No event records that
// moment: it is assumed to be right before the first such release. True where only the pools were
// emptied: nothing else was returned that could have been.
bool Follower::release_private_pools(std::span<const std::uint32_t> rows, Cause cause) {
  std::vector<PoolIndex> pools;
  std::size_t theirs = 0;
  for (const std::uint32_t row : rows) {
    const PoolIndex pool = private_pool_at(events_.address[row]);
    if (pool == kDefaultPool) continue;
    ++theirs;
    if (std::find(pools.begin(), pools.end(), pool) == pools.end()) pools.push_back(pool);
  }
  if (pools.empty()) return false;
  const bool is_alone =
      cause == Cause::program && theirs == rows.size() && !allocator_.plan_empty_cache().empty();
  for (const PoolIndex pool : pools) {
    request(is_alone ? RequestKind::empty_pool : RequestKind::release_pool, pool.index, rows[0]);
    if (is_alone) {
      allocator_.empty_pool(pool);
    } else {
      allocator_.release_pool(pool);
    }
  }
  return is_alone;
}

PoolIndex Follower::private_pool_at(std::uint64_t address) const {
  PoolIndex found = kDefaultPool;
  if (result_.requests.pools.size() == 1) return found;
  allocator_.for_each_segment([&](const Segment& segment) {
    if (address >= segment.address && address - segment.address < segment.size_bytes) {
      found = allocator_.stream_pool(segment.stream_pool).pool;
    }
  });
  return found;
}

// Compares the first count recorded calls with what the allocator has done since, and drops both.
void Follower::compare_calls(Calls& recorded, std::size_t count) {
  const std::vector<Call> recorded_calls = sorted_rows(events_, std::span(recorded.data(), count));
  const std::vector<Call> done = sorted_calls(allocator_.calls());
  if (recorded_calls != done) {
    std::vector<Call> different;
    std::set_symmetric_difference(recorded_calls.begin(), recorded_calls.end(), done.begin(),
                                  done.end(), std::back_inserter(different));
    result_.segment_mismatches += different.size();
    note_mismatch(count > 0 ? recorded[0] : static_cast<std::uint32_t>(events_.size() - 1));
  }
  recorded.erase(recorded.begin(), recorded.begin() + static_cast<std::ptrdiff_t>(count));
  allocator_.clear_calls();
}

}  // namespace gpumemprof::sim
