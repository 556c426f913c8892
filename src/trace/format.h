// The .gmp file in numbers: magic, versions, block kinds, limits. docs/format.md describes every
// bit of it.
//
//   file header | block | block | …        each block: header (28 bytes), then its content,
//                                          stored or compressed
//
// All fixed-width numbers are little-endian.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gpumemprof::trace {

inline constexpr std::array<std::uint8_t, 8> kMagic = {0x89, 'G', 'M', 'P', '\r', '\n', 0x1A, '\n'};
inline constexpr std::size_t kFileHeaderBytes = 16;

// A change that a reader would misread takes the next number; files of another are refused.
inline constexpr std::uint16_t kVersion = 3;

enum class BlockKind : std::uint8_t {
  about = 1,              // origin, facts, allocator settings; the last one counts
  definitions = 2,        // strings, frames, stacks, streams, pools that later blocks refer to
  events = 3,             // of one device
  state = 4,              // segments and blocks at one edge of the recording
  annotations = 5,        // annotations, lost events, device samples
  end = 6,                // closed cleanly; the last block
  labels = 7,             // what storages are, modules, phases
  chapter = 0x80,         // where in a long run this file begins
  native_modules = 0x81,  // programs and libraries that native frames belong to
};
// A reader skips unknown kinds from here on; any other unknown kind is damage.
inline constexpr std::uint8_t kFirstOptionalKind = 0x80;

enum class Encoding : std::uint8_t { stored = 0, zstd = 1 };

inline constexpr std::array<std::uint8_t, 4> kSync = {'G', 'M', 'P', 'B'};
inline constexpr std::size_t kBlockHeaderBytes = 28;
inline constexpr std::size_t kMaxBlockBytes = std::size_t{16}
                                              << 20;  // of content, before compression
inline constexpr std::size_t kMaxBlockEvents = std::size_t{1} << 17;
// Longer strings are truncated, so that every block stays within its limit.
inline constexpr std::size_t kMaxTextBytes = std::size_t{4} << 20;

// The columns of an events block, in file order.
enum class EventColumn : std::uint8_t {
  operation,
  distance,
  address,
  size,
  stream,
  stack,
  time_low,     // bits 0–6 of each time step, and whether more follow
  time_middle,  // bits 7–13
  time_high,    // bits 14–20
  time_rest,    // all above
  pair_time,
  has_time,
  compile_context,
  user_metadata,
  pool,
  forward_stack,
  module,
};
inline constexpr std::size_t kEventColumnCount = 17;

// An operation is an action in the low four bits, and these.
inline constexpr std::uint8_t kActionMask = 0x0F;
inline constexpr std::uint8_t kByReference = 0x10;  // address and stream are those of an anchor
inline constexpr std::uint8_t kSameStack = 0x20;    // as for the event before
inline constexpr std::uint8_t kSame =
    0x40;  // by reference: the anchor's size; otherwise: the stream of the last explicit one
inline constexpr std::uint8_t kPair =
    0x80;  // free_requested, followed directly by the same block's free_completed

constexpr std::string_view block_kind_name(BlockKind kind) {
  switch (kind) {
    case BlockKind::about:
      return "about";
    case BlockKind::definitions:
      return "definitions";
    case BlockKind::events:
      return "events";
    case BlockKind::state:
      return "state";
    case BlockKind::annotations:
      return "annotations";
    case BlockKind::end:
      return "end";
    case BlockKind::labels:
      return "labels";
    case BlockKind::chapter:
      return "chapter";
    case BlockKind::native_modules:
      return "native modules";
  }
  return "unknown";
}

}  // namespace gpumemprof::trace
