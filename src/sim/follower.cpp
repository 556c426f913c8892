#include "sim/follower.h"

#include <algorithm>

#include "base/error.h"

namespace gpumemprof::sim {
namespace {

// Times are in whole microseconds: two events of one call differ by at most one.
constexpr std::int64_t kSameCallNs = 1000;

}  // namespace

void RecordedAddresses::offer(Action action, std::uint64_t address, std::uint64_t size_bytes) {
  offers_.push_back({action, address, size_bytes});
}

std::uint64_t RecordedAddresses::place_segment(std::uint64_t size_bytes) {
  const auto offer = std::find_if(offers_.begin(), offers_.end(), [&](const Offer& candidate) {
    return candidate.action == Action::segment_alloc && candidate.size_bytes == size_bytes;
  });
  if (offer == offers_.end()) return invented_.place_segment(size_bytes);
  const std::uint64_t address = offer->address;
  offers_.erase(offer);
  return address;
}

std::uint64_t RecordedAddresses::place_range(std::uint64_t size_bytes) {
  const auto offer = std::find_if(offers_.begin(), offers_.end(), [](const Offer& candidate) {
    return candidate.action == Action::segment_map;
  });
  return offer == offers_.end() ? invented_.place_range(size_bytes) : offer->address;
}

Follower::Follower(const RecordedRun& run, const VerifyOptions& options, const MemoryLimit& limit)
    : run_(run),
      events_(*run.events),
      options_(options),
      allocator_({options.settings, options.rules, limit, options.device_total_bytes}, addresses_) {
  allocator_.keep_calls(true);
  result_.limit = limit;
  next_row_ = run.first_event;
}

// The requests get the blocks that were live at the start as allocations made before the first
// event, in address order.
Status Follower::adopt_start() {
  for (std::size_t row = 0; row < run_.start.segments.size(); ++row) {
    const SegmentState& segment = run_.start.segments[row];
    const std::span<const BlockState> blocks = run_.start.blocks_of(row);
    std::uint64_t end = segment.address;
    bool is_tiled = true;
    for (const BlockState& block : blocks) {
      is_tiled = is_tiled && block.address == end && block.size_bytes > 0 &&
                 block.size_bytes % kMinBlockBytes == 0 && block.size_bytes <= kMaxRequestBytes;
      end += block.size_bytes;
    }
    const bool is_possible = segment.size_bytes <= kMaxRequestBytes && end >= segment.address;
    if (!is_tiled || !is_possible || end != segment.address + segment.size_bytes) {
      return Error{ErrorCode::bad_input, "the blocks of a segment do not fill it",
                   "segment at " + std::to_string(segment.address), "the recording is damaged"};
    }
    if (segment.size_bytes == 0) continue;
    const StreamPoolId stream_pool = stream_pool_for({segment.stream, pool_of(segment.pool)});
    const AllocationId first_id(result_.requests.allocation_count());
    for (const BlockState& block : blocks) {
      if (block.state != BlockStateKind::inactive) add_earlier_allocation(block, stream_pool);
    }
    allocator_.adopt_segment(segment, blocks, stream_pool, first_id);
  }
  allocator_.clear_calls();
  return Done{};
}

void Follower::add_earlier_allocation(const BlockState& block, StreamPoolId stream_pool) {
  const AllocationId id = result_.requests.add_allocation(block.requested_bytes, stream_pool);
  allocation_at_.insert_or_assign(block.address, id.index);
  result_.requests.add(RequestKind::allocate, id.index, kNoEvent);
  if (block.state == BlockStateKind::active_pending_free) {
    result_.requests.add(RequestKind::request_free, id.index, kNoEvent);
  }
}

void Follower::follow() {
  GMP_CHECK(events_.size() < kNoEvent);
  const auto count = static_cast<std::uint32_t>(events_.size());
  for (; next_row_ < count; ++next_row_) read(next_row_);
  settle_burst_without_allocation();
  for (const std::uint32_t row : fresh_) note_mismatch(row);
  result_.segment_mismatches += fresh_.size();
}

void Follower::follow_more() {
  const auto count = static_cast<std::uint32_t>(events_.size());
  for (; next_row_ + 2 < count; ++next_row_) read(next_row_);
}

std::uint32_t Follower::forget_rows() {
  std::uint32_t first = next_row_;
  for (const Calls* calls : {&completions_, &releases_, &fresh_}) {
    for (const std::uint32_t row : *calls) first = std::min(first, row);
  }
  for (Calls* calls : {&completions_, &releases_, &fresh_}) {
    for (std::uint32_t& row : *calls) row -= first;
  }
  if (accounted_completion_ != kNoEvent)
    accounted_completion_ =
        accounted_completion_ >= first ? accounted_completion_ - first : kNoEvent;
  next_row_ -= first;
  rows_before_ += first;
  return first;
}

void Follower::forget_requests() {
  result_.requests.kind.clear();
  result_.requests.operand.clear();
  result_.requests.event.clear();
  reusable_.insert(reusable_.end(), gone_.begin(), gone_.end());
  gone_.clear();
}

AllocationId Follower::new_allocation(std::uint64_t requested_bytes, StreamPoolId stream_pool) {
  if (reusable_.empty()) return result_.requests.add_allocation(requested_bytes, stream_pool);
  const AllocationId id = reusable_.back();
  reusable_.pop_back();
  result_.requests.size_bytes[id.index] = requested_bytes;
  result_.requests.stream_pool[id.index] = stream_pool;
  return id;
}

void Follower::request(RequestKind kind, std::uint32_t operand, std::uint32_t row) {
  result_.requests.add(kind, operand, rows_before_ + row);
}

void Follower::read(std::uint32_t row) {
  switch (events_.action[row]) {
    case Action::alloc:
      read_allocation(row, false);
      break;
    case Action::oom:
      read_allocation(row, true);
      break;
    case Action::free_requested:
      read_free_requested(row);
      break;
    case Action::free_completed:
      read_free_completed(row);
      break;
    case Action::segment_alloc:
    case Action::segment_map:
      fresh_.push_back(row);
      ++result_.segment_calls;
      break;
    case Action::segment_free:
    case Action::segment_unmap:
      if (releases_.empty()) completions_before_first_release_ = completions_.size();
      releases_.push_back(row);
      completions_before_release_ = completions_.size();
      ++result_.segment_calls;
      break;
    default:
      break;
  }
}

void Follower::read_free_requested(std::uint32_t row) {
  settle_burst_without_allocation();
  const std::uint32_t* found = allocation_at_.find(events_.address[row]);
  if (found == nullptr) {
    ++result_.unknown_frees;
    if (completes_at_once(row)) accounted_completion_ = row + 1;
    return;
  }
  const AllocationId id(*found);
  if (!completes_at_once(row)) {
    allocator_.request_free(id);
    request(RequestKind::request_free, id.index, row);
    return;
  }
  allocator_.free(id);
  request(RequestKind::free, id.index, row);
  // What waited for a stream keeps its id: the allocator may still list it as waiting.
  if (is_stream_) gone_.push_back(id);
  allocation_at_.erase(events_.address[row]);
  accounted_completion_ = row + 1;
}

// A completion right after its request is usually part of the same call. It can also belong to the
// next allocation, if another stream used the block: a different stack or a later time shows that.
// Without times, it is left open before an event that only such an allocation makes, for the burst
// to settle; confusing the two changes only what is active in between.
bool Follower::completes_at_once(std::uint32_t row) const {
  const std::uint32_t completion = row + 1;
  if (completion >= events_.size() || events_.action[completion] != Action::free_completed ||
      events_.address[completion] != events_.address[row]) {
    return false;
  }
  if (events_.stack[completion] != events_.stack[row]) return false;
  const std::int64_t time_ns = events_.time_ns[row];
  const std::int64_t completion_ns = events_.time_ns[completion];
  if (time_ns != kUnknownTime && completion_ns != kUnknownTime)
    return completion_ns - time_ns <= kSameCallNs;
  if (completion + 1 >= events_.size()) return true;
  const Action next = events_.action[completion + 1];
  return next == Action::alloc || next == Action::free_requested;
}

void Follower::read_free_completed(std::uint32_t row) {
  if (row != accounted_completion_) completions_.push_back(row);
}

PoolIndex Follower::pool_of(std::uint32_t pool_row) {
  if (pool_row == kNoPool || pool_row >= run_.pools.size()) return kDefaultPool;
  const PoolId& pool = run_.pools[pool_row];
  if (pool == PoolId{}) return kDefaultPool;
  if (pool_row >= pool_of_row_.size()) pool_of_row_.resize(pool_row + std::size_t{1});
  PoolIndex& index = pool_of_row_[pool_row];
  if (index.is_none()) {
    const PoolKind kind = pool.graph != 0 ? PoolKind::graph : PoolKind::user;
    index = result_.requests.add_pool(kind);
    allocator_.add_pool(kind);
  }
  return index;
}

StreamPoolId Follower::stream_pool_for(const StreamPoolKey& key) {
  const std::size_t stream_pools_before = result_.requests.stream_pools.size();
  const StreamPoolId stream_pool = result_.requests.add_stream_pool(key);
  if (result_.requests.stream_pools.size() > stream_pools_before) allocator_.add_stream_pool(key);
  return stream_pool;
}

StreamPoolId Follower::stream_pool_of(std::uint32_t row) {
  const std::uint32_t stream = events_.stream[row];
  const std::uint32_t pool_row = run_.pool_row(row);
  if (last_stream_pool_.is_none() || stream != last_stream_ || pool_row != last_pool_row_) {
    last_stream_pool_ = stream_pool_for({stream, pool_of(pool_row)});
    last_stream_ = stream;
    last_pool_row_ = pool_row;
  }
  return last_stream_pool_;
}

// An address is handed out while it is still in use: its free was not recorded.
void Follower::forget_address(std::uint32_t row) {
  const std::uint32_t* found = allocation_at_.find(events_.address[row]);
  if (found == nullptr) return;
  const AllocationId id(*found);
  ++result_.implied_frees;
  allocator_.free(id);
  allocator_.complete_free(id);
  request(RequestKind::free, id.index, row);
  request(RequestKind::complete_free, id.index, row);
  allocation_at_.erase(events_.address[row]);
}

void Follower::read_allocation(std::uint32_t row, bool failed) {
  const StreamPoolId stream_pool = stream_pool_of(row);
  const std::uint64_t requested_bytes = events_.size_bytes[row];
  if (!completions_.empty() || has_releases())
    settle_burst_before(row, requested_bytes, stream_pool);
  if (!failed) forget_address(row);
  const AllocationId id = new_allocation(requested_bytes, stream_pool);
  for (const std::uint32_t call : fresh_) {
    addresses_.offer(events_.action[call], events_.address[call], events_.size_bytes[call]);
  }
  place(row, id, stream_pool, failed);
  const bool has_calls = !fresh_.empty() || has_releases() || !allocator_.calls().empty();
  if (has_calls) {
    fresh_.insert(fresh_.end(), releases_.begin(), releases_.end());
    compare_calls(fresh_, fresh_.size());
    releases_.clear();
    addresses_.clear();
  }
  request(failed ? RequestKind::failed_allocate : RequestKind::allocate, id.index, row);
  if (failed && is_stream_) gone_.push_back(id);
  if (!failed) allocation_at_.insert_or_assign(events_.address[row], id.index);
}

void Follower::place(std::uint32_t row, AllocationId id, StreamPoolId stream_pool, bool failed) {
  const std::uint64_t requested_bytes = events_.size_bytes[row];
  const bool succeeds = allocator_.allocate(id, requested_bytes, stream_pool);
  result_.allocations += failed ? 0 : 1;
  if (succeeds != failed && (failed || allocator_.placement(id).address == events_.address[row]))
    return;
  ++result_.address_mismatches;
  note_mismatch(row);
  allocator_.free(id);
  // Continue as recorded from here, so that one difference is counted once.
  if (failed) return;
  if (!allocator_.allocate_at(id, requested_bytes, stream_pool, events_.address[row]) && succeeds) {
    allocator_.allocate(id, requested_bytes, stream_pool);
  }
}

void Follower::note_mismatch(std::uint32_t row) {
  result_.first_mismatch_event = std::min(result_.first_mismatch_event, rows_before_ + row);
}

Verification Follower::take_result() && {
  result_.counters = allocator_.counters();
  return std::move(result_);
}

}  // namespace gpumemprof::sim
