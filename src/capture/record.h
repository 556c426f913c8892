// Record: what a callback leaves in the ring, one fixed-size piece at a time.
//
// A thread's stack is not repeated with every event: the drain holds a mirror of each thread's
// stack, and a thread only sends how its stack changed (frames) and, once for each code object, the
// names in it (code). An event then means "with the stack this thread has now", and, in backward,
// "for the node this thread runs now" (node). Native stacks are sent once, as return addresses
// (native); an event then names one by its number. Times are ticks of the processor's clock.
#pragma once

#include <array>
#include <cstdint>

#include "capture/device_slot.h"

namespace gpumemprof::capture {

// An event's stack, compared with the mirror that the drain has of its thread's.
enum class StackChange : std::uint8_t {
  none,
  mirrored,  // the same
  moved,     // the same, but the innermost frame is at another instruction
};

enum class RecordKind : std::uint8_t {
  event,
  frames,
  code,
  node,
  module,
  native,
  nothing,  // a place that was claimed too early: other records had to come first
};

// An autograd node: its sequence number within its thread, and torch's number for that thread.
inline constexpr std::uint64_t kNoSequence = 0xFFFF'FFFF'FFFF'FFFF;
struct NodeKey {
  std::uint64_t sequence = kNoSequence;  // also for nodes that torch does not number
  std::uint32_t thread = 0;
  [[nodiscard]] bool is_none() const { return sequence == kNoSequence; }
  bool operator==(const NodeKey&) const = default;
};

inline constexpr std::uint16_t kNoThread = 0xFFFF;

// Numbers the recordings of this process as they begin: what happened in one epoch is irrelevant to
// recordings that began in a later one.
using Epoch = std::uint16_t;

struct EventRecord {
  RecordKind kind = RecordKind::event;
  std::uint8_t action = 0;  // torch's numbers, which are those of Action
  std::uint16_t thread = kNoThread;
  DeviceSlot device = 0;
  StackChange stack = StackChange::none;
  std::uint16_t tag = 0;  // 0: none
  std::uint64_t ticks = 0;
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;
  std::uint64_t stream = 0;
  std::uint32_t pool_graph = 0;
  std::uint32_t pool_user = 0;
  std::uint32_t native = 0;       // the thread's number of the native stack below the Python frames
  std::uint32_t instruction = 0;  // where the innermost frame moved to
};

// The outermost `keep` frames of the thread's stack stay; these follow, outermost first. The frame
// of a module's call is followed by an item that is the module's address.
struct FramesRecord {
  static constexpr std::size_t kFrames = 6;
  static constexpr std::uint32_t kHasModule = 0x8000'0000;
  struct Item {
    std::uint32_t code = 0;         // slot in the thread's code cache, and kHasModule
    std::uint32_t instruction = 0;  // bytes from the start of the code
  };
  static Item module_item(std::uint64_t address) {
    return {static_cast<std::uint32_t>(address), static_cast<std::uint32_t>(address >> 32)};
  }
  static std::uint64_t module_address(const Item& item) {
    return item.code | (std::uint64_t{item.instruction} << 32);
  }

  RecordKind kind = RecordKind::frames;
  std::uint8_t count = 0;  // items
  std::uint16_t thread = kNoThread;
  std::uint16_t keep = 0;
  std::uint16_t frame_count = 0;  // items excluding modules
  std::array<Item, kFrames> frames;
};

// A piece of a code object's description: CodeHead, name, file, line table, one after the other.
struct CodeRecord {
  static constexpr std::size_t kBytes = 48;

  RecordKind kind = RecordKind::code;
  std::uint8_t is_first = 0;
  std::uint16_t thread = kNoThread;
  std::uint16_t slot = 0;
  std::uint16_t length = 0;
  std::array<char, kBytes> bytes;
};

struct CodeHead {
  std::uint32_t first_line = 0;
  std::uint32_t table_bytes = 0;
  std::uint16_t name_bytes = 0;
  std::uint16_t file_bytes = 0;
};

// An autograd node was created with the stack its thread has now, as are those that follow it until
// the next such record; or it is the one its thread runs from now on.
struct NodeRecord {
  RecordKind kind = RecordKind::node;
  bool is_running = false;
  std::uint16_t thread = kNoThread;
  StackChange stack = StackChange::none;
  std::uint32_t instruction = 0;
  // Differs from the record before if nodes were created that were not recorded: then no node
  // continues those the drain knows about.
  std::uint32_t epoch = 0;
  NodeKey node;
  std::uint64_t end_before = 0;  // where the nodes covered by this thread's previous record end
};

// From now on the object at this address is a module of this class.
struct ModuleRecord {
  static constexpr std::size_t kNameBytes = 40;

  RecordKind kind = RecordKind::module;
  std::uint8_t length = 0;
  std::uint16_t thread = kNoThread;
  std::uint64_t address = 0;
  std::array<char, kNameBytes> class_name;
};

// The outermost `keep` return addresses of the native stack that the thread last sent stay; these
// follow, outermost first. With the last of them, the stack gets its number, until it is given to
// another; 0: more follow.
struct NativeRecord {
  static constexpr std::size_t kAddresses = 6;

  RecordKind kind = RecordKind::native;
  std::uint8_t count = 0;
  std::uint16_t thread = kNoThread;
  std::uint16_t keep = 0;
  std::uint16_t number = 0;
  std::array<std::uint64_t, kAddresses> addresses;
};

union Record {
  RecordKind kind;
  EventRecord event;
  FramesRecord frames;
  CodeRecord code;
  NodeRecord node;
  ModuleRecord module;
  NativeRecord native;

  Record() : event() {}
};
static_assert(sizeof(Record) == 56);

}  // namespace gpumemprof::capture
