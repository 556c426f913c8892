// The vocabulary of allocator events: what every source delivers and every stage reads.
//
// Terms are PyTorch's: requested (what was asked for), allocated (blocks handed out), active
// (allocated plus waiting for a stream), reserved (what the pool took from the driver), segment,
// block, pool, stream. Units are in the names. Unknown is a marked value, never 0.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>

#include "base/column.h"
#include "base/id.h"

namespace gpumemprof {

using DeviceIndex = std::int16_t;

// Pinned host memory is reported as a device of its own.
inline constexpr DeviceIndex kHostDevice = -1;

enum class Action : std::uint8_t {
  alloc,           // a block was handed out; size is what was requested
  free_requested,  // its owner freed it
  free_completed,  // no stream uses it any more; it can be handed out again
  segment_alloc,   // the pool took a segment from the driver
  segment_free,    // and returned it
  segment_map,     // pages of an expandable segment were mapped
  segment_unmap,   // and unmapped
  snapshot,        // a snapshot was taken
  oom,       // out of memory; address holds the bytes the device had free, size the rounded request
  annotate,  // a label for a live block (torch 2.14)
  other,     // an action this version does not know; skipped
  placed,    // after a gap: the block of the next event, an alloc at this address, has this size
};
inline constexpr std::size_t kActionCount = 12;

std::string_view action_name(Action action);
Action action_from_name(std::string_view name);

inline constexpr std::int64_t kUnknownTime = std::numeric_limits<std::int64_t>::min();
inline constexpr std::uint64_t kUnknownBytes = std::numeric_limits<std::uint64_t>::max();
inline constexpr std::uint32_t kNoEvent = std::numeric_limits<std::uint32_t>::max();
inline constexpr std::uint32_t kNoPool = std::numeric_limits<std::uint32_t>::max();
// Number of a module of the program (label.h); a recording has fewer than kMaxModules.
inline constexpr std::uint32_t kNoModule = std::numeric_limits<std::uint32_t>::max();
inline constexpr std::uint32_t kMaxModules = std::uint32_t{1} << 20;

struct PoolId {
  std::uint64_t graph = 0;  // (n, 0): created by a CUDA graph
  std::uint64_t user = 0;   // (0, n): created by the user
  constexpr auto operator<=>(const PoolId&) const = default;
};

struct Event {
  Action action = Action::other;
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;
  std::uint32_t stream = 0;  // row in the store's streams
  std::int64_t time_ns = kUnknownTime;
  StackId stack;
  StringId compile_context;  // none, or the name of the compiled region
  StringId user_metadata;
  std::uint32_t pool = kNoPool;  // row in the store's pools
  StackId forward_stack;  // for memory allocated in backward: where the forward op was called
  // The innermost module whose call made it; for memory allocated in backward, that of the forward
  // op.
  std::uint32_t module = kNoModule;
};

// The events of one device, in order. The columns below the line stay empty until an event needs
// them.
struct EventColumns {
  Column<Action> action;
  Column<std::uint64_t> address;
  Column<std::uint64_t> size_bytes;
  Column<std::uint32_t> stream;
  Column<std::int64_t> time_ns;
  Column<StackId> stack;
  // ---
  Column<StringId> compile_context;
  Column<StringId> user_metadata;
  Column<std::uint32_t> pool;
  Column<StackId> forward_stack;
  Column<std::uint32_t> module;

  [[nodiscard]] std::size_t size() const { return action.size(); }
  [[nodiscard]] bool empty() const { return action.empty(); }
  [[nodiscard]] Event row(std::size_t index) const;
  void push_back(const Event& event);
  void append(const EventColumns& other, std::size_t first, std::size_t count);
  void shrink_to_fit();
  // Keeps its capacity.
  void clear();
  // The same for the events from this row on.
  void truncate(std::size_t size);
};

}  // namespace gpumemprof
