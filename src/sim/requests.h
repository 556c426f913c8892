// What a program asked of its allocator, without anything the allocator decided: the input of every
// what-if run.
//
// Requests are rows in time order; allocations have their own columns, indexed by AllocationId,
// which is dense and in order of allocation. There are tens of millions of rows: 9 bytes per
// request and 12 per allocation.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/column.h"
#include "base/id.h"
#include "sim/allocator/allocator.h"
#include "sim/allocator/block.h"

namespace gpumemprof::sim {

enum class RequestKind : std::uint8_t {
  allocate,         // operand: allocation
  free,             // the block can be reused at once
  request_free,     // freed by its owner; another stream still uses the block
  complete_free,    // and now no stream does
  failed_allocate,  // ran out of memory when recorded: tried again, and freed at once if it
                    // succeeds now
  empty_cache,
  release_pool,  // operand: pool; no longer in use
  empty_pool,    // operand: pool; only its memory is returned
};

struct RequestColumns {
  Column<RequestKind> kind;
  Column<std::uint32_t> operand;
  Column<std::uint32_t>
      event;  // the recorded event it comes from; kNoEvent if it precedes the first event
  // ---
  Column<std::uint64_t> size_bytes;  // requested, by allocation
  Column<StreamPoolId> stream_pool;  // by allocation
  std::vector<StreamPoolKey> stream_pools;
  std::vector<PoolKind> pools;  // row 0 is the default pool

  RequestColumns() : pools{PoolKind::standard} {}

  [[nodiscard]] std::size_t size() const { return kind.size(); }
  [[nodiscard]] std::size_t allocation_count() const { return size_bytes.size(); }

  PoolIndex add_pool(PoolKind kind);
  // The stream pool with this key, created if it does not exist.
  StreamPoolId add_stream_pool(const StreamPoolKey& key);
  AllocationId add_allocation(std::uint64_t requested_bytes, StreamPoolId stream_pool);
  void add(RequestKind kind, std::uint32_t operand, std::uint32_t event);
  // Creates the pools and stream pools of these requests in an allocator that has none yet; ids
  // stay the same.
  void declare_stream_pools(Allocator& allocator) const;
};

}  // namespace gpumemprof::sim
