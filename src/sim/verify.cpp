#include "sim/verify.h"

#include <algorithm>
#include <array>

#include "sim/follower.h"

namespace gpumemprof::sim {
namespace {

// The counters that follow from a list of segments and blocks.
Counters counters_of(const SegmentList& list) {
  Counters counters;
  for (std::size_t row = 0; row < list.segments.size(); ++row) {
    const SegmentState& segment = list.segments[row];
    const std::span<const BlockState> blocks = list.blocks_of(row);
    const PoolHalf half = segment.is_small ? PoolHalf::small : PoolHalf::large;
    counters.reserved_bytes.increase(half, segment.size_bytes);
    if (!segment.is_expandable) counters.segment.increase(half, 1);
    for (const BlockState& block : blocks) {
      if (block.state == BlockStateKind::inactive) {
        if (segment.is_expandable || blocks.size() == 1) continue;
        counters.inactive_split.increase(half, 1);
        counters.inactive_split_bytes.increase(half, block.size_bytes);
        continue;
      }
      counters.active.increase(half, 1);
      counters.active_bytes.increase(half, block.size_bytes);
      counters.requested_bytes.increase(half, block.requested_bytes);
      if (block.state == BlockStateKind::active_pending_free) continue;
      counters.allocation.increase(half, 1);
      counters.allocated_bytes.increase(half, block.size_bytes);
    }
  }
  return counters;
}

constexpr std::array kEndStats = {
    &Counters::allocation,     &Counters::allocated_bytes, &Counters::active,
    &Counters::active_bytes,   &Counters::requested_bytes, &Counters::segment,
    &Counters::reserved_bytes, &Counters::inactive_split,  &Counters::inactive_split_bytes,
};

bool agrees(const Block& block, const BlockState& recorded) {
  if (block.address != recorded.address || block.size_bytes != recorded.size_bytes) return false;
  switch (block.use) {
    case BlockUse::free:
      return recorded.state == BlockStateKind::inactive;
    case BlockUse::handed_out:
      return recorded.state == BlockStateKind::active_allocated &&
             block.requested_bytes == recorded.requested_bytes;
    case BlockUse::pending:
      return recorded.state == BlockStateKind::active_pending_free;
    case BlockUse::retired:
      break;
  }
  return false;
}

}  // namespace

void Follower::compare_end() {
  const Counters& simulated = allocator_.counters();
  const auto compare = [this](std::uint64_t ours, std::uint64_t theirs) {
    ++result_.counters_compared;
    if (ours != theirs) ++result_.counter_mismatches;
  };
  for (const NamedCounter& counter : run_.counters) {
    // An empty_cache that found nothing to return leaves no event, but still counts as a
    // synchronisation.
    if (counter.name == "num_sync_all_streams") continue;
    if (const auto value = simulated.value(counter.name)) compare(*value, counter.value);
  }
  if (!run_.has_end) return;
  const Counters recorded = counters_of(run_.end);
  for (const auto stat : kEndStats) {
    for (const PoolHalf half : {PoolHalf::small, PoolHalf::large}) {
      compare((simulated.*stat).current(half), (recorded.*stat).current(half));
    }
  }
  compare_end_blocks();
}

void Follower::compare_end_blocks() {
  FlatMap<std::uint32_t> row_of_address;
  for (std::size_t row = 0; row < run_.end.blocks.size(); ++row) {
    row_of_address.insert_or_assign(run_.end.blocks[row].address, static_cast<std::uint32_t>(row));
  }
  std::size_t agreeing = 0;
  std::size_t ours = 0;
  allocator_.for_each_segment([&](const Segment& segment) {
    for (BlockId id = segment.first; !id.is_none(); id = allocator_.block(id).next) {
      const Block& block = allocator_.block(id);
      if (!block.is_mapped) continue;
      ++ours;
      const std::uint32_t* row = row_of_address.find(block.address);
      if (row != nullptr && agrees(block, run_.end.blocks[*row])) ++agreeing;
    }
  });
  result_.end_blocks = run_.end.blocks.size();
  result_.end_block_mismatches = std::max(ours, run_.end.blocks.size()) - agreeing;
}

Result<Verification> verify(const RecordedRun& run, const VerifyOptions& options) {
  std::optional<InferredLimit> inferred;
  if (!options.limit) inferred = infer_limit(run, options.settings);
  const MemoryLimit limit = options.limit ? *options.limit
                            : inferred    ? inferred->limit
                                          : MemoryLimit{};
  Follower follower(run, options, limit);
  if (Status status = follower.adopt_start(); !status) return status.error();
  follower.follow();
  follower.compare_end();
  Verification verification = std::move(follower).take_result();
  verification.inferred_limit = inferred;
  return verification;
}

Result<RequestColumns> extract_requests(const RecordedRun& run, const VerifyOptions& options) {
  Result<Verification> verification = verify(run, options);
  if (!verification) return verification.error();
  return std::move(verification.value().requests);
}

}  // namespace gpumemprof::sim
