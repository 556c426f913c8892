#include "capture/stream/emitter.h"

#include <algorithm>

#include "capture/stacks/code_object_watch.h"
#include "capture/stacks/described_modules.h"
#include "event/event.h"

namespace gpumemprof::capture {
namespace {

std::uint16_t code_slot(std::uintptr_t code) {
  static_assert(kCodeSlots == 4096);
  return static_cast<std::uint16_t>((code * 0x9E3779B97F4A7C15ULL) >> 52);
}

// Sends bytes as code records; the first failure is final.
class CodeSender {
 public:
  CodeSender(Ring& ring, std::uint16_t thread, std::uint16_t slot) : ring_(ring) {
    record_.code = CodeRecord();
    record_.code.is_first = 1;
    record_.code.thread = thread;
    record_.code.slot = slot;
  }

  void send(std::string_view bytes) {
    while (!bytes.empty() && !has_failed_) {
      CodeRecord& code = record_.code;
      const std::size_t taken = std::min(bytes.size(), CodeRecord::kBytes - code.length);
      std::memcpy(code.bytes.data() + code.length, bytes.data(), taken);
      code.length = static_cast<std::uint16_t>(code.length + taken);
      bytes.remove_prefix(taken);
      if (code.length == CodeRecord::kBytes) push();
    }
  }

  bool finish() {
    if (record_.code.length > 0) push();
    return !has_failed_;
  }

 private:
  void push() {
    if (!ring_.push(record_)) has_failed_ = true;
    record_.code.is_first = 0;
    record_.code.length = 0;
  }

  Ring& ring_;
  Record record_;
  bool has_failed_ = false;
};

}  // namespace

void Emitter::give_up(Ring::Place& place) {
  if (!place) return;
  Ring::record_at(place).kind = RecordKind::nothing;
  Ring::hand_over(place);
  place = {};
}

[[gnu::hot]] void Emitter::note_node(std::uint64_t sequence, std::uint64_t (*thread_number)()) {
  ThreadSlot* slot = slots_.mine();
  const FrameWalker* walker = walker_.load(std::memory_order_acquire);
  if (slot == nullptr || walker == nullptr) return;
  std::uint32_t instruction = 0;
  Ring::Place none;
  const StackChange stack = send_stack(*walker, *slot, instruction, none);
  const bool is_bare = stack == StackChange::none;
  const std::uint32_t epoch = epoch_.load(std::memory_order_relaxed);
  NotedNodes& noted = slot->noted;
  if (noted.is_open && noted.is_bare == is_bare && noted.end == sequence && noted.epoch == epoch)
      [[likely]] {
    ++noted.end;
    return;
  }
  if (noted.thread == 0) noted.thread = static_cast<std::uint32_t>(thread_number());
  Record record;
  record.node = NodeRecord();
  record.node.thread = slot->number;
  record.node.stack = stack;
  record.node.instruction = instruction;
  record.node.epoch = epoch;
  record.node.node = {sequence, noted.thread};
  record.node.end_before = noted.end;
  noted.is_open = ring_.push(record);
  if (noted.is_open) {
    noted.end = sequence + 1;
    noted.epoch = epoch;
    noted.is_bare = is_bare;
    return;
  }
  lose_nodes();
  if (stack == StackChange::moved) slot->is_mirrored = false;
}

[[gnu::hot]] NodeKey* Emitter::running_node() {
  ThreadSlot* slot = slots_.mine();
  return slot == nullptr ? nullptr : &slot->running;
}

[[gnu::hot]] bool Emitter::send_running_node(ThreadSlot& slot) {
  Record record;
  record.node = NodeRecord();
  record.node.is_running = true;
  record.node.thread = slot.number;
  record.node.epoch = epoch_.load(std::memory_order_relaxed);
  record.node.node = slot.running;
  if (!ring_.push(record)) return false;
  slot.reported_running = slot.running;
  return true;
}

void Emitter::set_tag(std::uint16_t tag) {
  if (ThreadSlot* slot = slots_.mine(); slot != nullptr) slot->tag = tag;
}

std::uint16_t Emitter::tag() {
  const ThreadSlot* slot = slots_.mine();
  return slot == nullptr ? std::uint16_t{0} : slot->tag;
}

[[gnu::hot]] StackChange Emitter::send_stack(const FrameWalker& walker, ThreadSlot& slot,
                                             std::uint32_t& instruction, Ring::Place& place) {
  std::uintptr_t state = slot.kept_state;
  if (state == 0) {
    state = walker.find_state(slot.kept_state);
    if (state == 0) return StackChange::none;
  }
  if (slot.is_mirrored && watches_code_objects() && objects_destroyed() == slot.destroyed_seen)
      [[likely]] {
    const FrameWalker::Comparison comparison = walker.compare(state, slot.cached_stack);
    if (comparison == FrameWalker::Comparison::same) [[likely]]
      return StackChange::mirrored;
    if (comparison == FrameWalker::Comparison::moved) {
      slot.noted.is_open = false;
      FrameWalker::move_along(slot.cached_stack);
      instruction = walker.instruction_offset(slot.cached_stack.innermost());
      return StackChange::moved;
    }
  }
  return send_difference(walker, slot, state, instruction, place);
}

// Not inlined: a walk begins at a frame of its own.
[[gnu::noinline]] [[gnu::hot]] NativeNumber Emitter::send_native(NativeWalker& walker,
                                                                 ThreadSlot& slot,
                                                                 Ring::Place& place) {
  const NativeNumber number = walker.find(slot.native);
  if (number == kNoNative || (*slot.native.known)[number].is_mirrored) [[likely]]
    return number;
  return define_native(slot, number, place) ? number : kNoNative;
}

[[gnu::noinline]] bool Emitter::define_native(ThreadSlot& slot, NativeNumber number,
                                              Ring::Place& place) {
  NativeStack& native = slot.native;
  native.is_path_mirrored = send_addresses(slot, number, place);
  (*native.known)[number].is_mirrored = native.is_path_mirrored;
  native.newest = 1 - native.newest;
  native.sent_count = native.walked_count;
  return native.is_path_mirrored;
}

bool Emitter::send_addresses(const ThreadSlot& slot, NativeNumber number, Ring::Place& place) {
  const NativeStack& native = slot.native;
  const NativeAddresses& found = native.walked();
  const NativeAddresses& last = native.sent();
  const std::size_t count = native.walked_count;
  std::size_t kept = 0;
  if (native.is_path_mirrored) {
    const std::size_t most = std::min(count, native.sent_count);
    while (kept < most && found[count - 1 - kept] == last[native.sent_count - 1 - kept]) ++kept;
  }
  std::size_t sent = kept;
  do {  // also with nothing left: the drain must learn the number
    if (!place) place = ring_.claim();
    if (!place) return false;
    NativeRecord& record = Ring::record_at(place).native;
    record.kind = RecordKind::native;
    record.thread = slot.number;
    record.keep = static_cast<std::uint16_t>(sent);
    const std::size_t more = std::min(count - sent, NativeRecord::kAddresses);
    record.count = static_cast<std::uint8_t>(more);
    for (std::size_t index = 0; index < more; ++index)
      record.addresses[index] = found[count - 1 - sent - index];
    sent += more;
    record.number = sent == count ? number : kNoNative;
    Ring::hand_over(place);
    place = {};
  } while (sent < count);
  return true;
}

bool Emitter::is_mirror_current(const FrameWalker& walker, const ThreadSlot& slot,
                                std::uint64_t destroyed) {
  return slot.is_mirrored && destroyed == slot.destroyed_seen &&
         (watches_code_objects() || has_same_quick_hashes(walker, slot));
}

// Not inlined: rare code should not be fetched along with code that always runs.
[[gnu::noinline]] StackChange Emitter::send_difference(const FrameWalker& walker, ThreadSlot& slot,
                                                       std::uintptr_t state,
                                                       std::uint32_t& instruction,
                                                       Ring::Place& place) {
  const Walk walk = walker.walk(state, slot.cached_stack, slot.found);
  if (walk.count == 0) return StackChange::none;
  const std::uint64_t destroyed = objects_destroyed();
  if (walk.is_same && is_mirror_current(walker, slot, destroyed)) return StackChange::mirrored;
  slot.noted.is_open = false;
  if (walk.has_moved && is_mirror_current(walker, slot, destroyed)) {
    instruction = walker.instruction_offset(slot.cached_stack.innermost());
    return StackChange::moved;
  }
  slot.is_mirrored = send_changes(walker, slot, walk, destroyed, place);
  return slot.is_mirrored ? StackChange::mirrored : StackChange::none;
}

[[gnu::noinline]] bool Emitter::has_same_quick_hashes(const FrameWalker& walker,
                                                      const ThreadSlot& slot) {
  std::uint64_t difference = 0;
  const CachedStack& cached = slot.cached_stack;
  for (std::size_t index = 0; index < cached.size(); ++index) {
    if (cached.is_bridge(index)) continue;
    difference |= walker.codes().quick_hash(cached.key(index).code) ^
                  slot.quick_hashes[cached.depth_at(index) - 1];
  }
  return difference == 0;
}

std::size_t Emitter::steps_to_keep(const FrameWalker& walker, const ThreadSlot& slot,
                                   const Walk& walk, std::uint64_t destroyed) {
  if (!slot.is_mirrored || destroyed != slot.destroyed_seen) return 0;
  if (watches_code_objects()) return walk.fresh;
  const CachedStack& cached = slot.cached_stack;
  std::size_t keep = 0;
  while (keep < walk.fresh &&
         (cached.is_bridge(keep) || walker.codes().quick_hash(cached.key(keep).code) ==
                                        slot.quick_hashes[cached.depth_at(keep) - 1])) {
    ++keep;
  }
  return keep;
}

bool Emitter::push_frames(Record& record, Ring::Place& place) {
  if (!place) place = ring_.claim();
  const bool fitted = static_cast<bool>(place);
  if (fitted) {
    Ring::record_at(place) = record;
    Ring::hand_over(place);
    place = {};
  }
  FramesRecord& frames = record.frames;
  frames.keep = static_cast<std::uint16_t>(frames.keep + frames.frame_count);
  frames.count = 0;
  frames.frame_count = 0;
  return fitted;
}

bool Emitter::introduce(const FrameWalker& walker, ThreadSlot& slot, std::uintptr_t code,
                        std::uint64_t destroyed, Record& pending, Ring::Place& place) {
  const std::uint16_t number = code_slot(code);
  KnownCode& known = slot.codes[number];
  const std::uint64_t stamp = watches_code_objects() ? destroyed : walker.codes().quick_hash(code);
  if (known.code == code && known.stamp == stamp) return true;
  const std::uint64_t fingerprint = walker.codes().fingerprint(code);
  if (known.code != code || known.fingerprint != fingerprint) {
    // What a slot stood for so far must reach the drain before the slot is reused.
    if (pending.frames.count > 0 && !push_frames(pending, place)) return false;
    give_up(place);
    if (!describe(walker, slot, code, number)) return false;
  }
  known = {code, fingerprint, stamp};
  return true;
}

bool Emitter::introduce_module(ThreadSlot& slot, std::uintptr_t module, std::uint64_t destroyed,
                               Record& pending, Ring::Place& place) {
  static_assert(kModuleSlots == 2048);
  KnownModule& known = slot.modules[(module * 0x9E3779B97F4A7C15ULL) >> 53];
  const std::uintptr_t type = CodeReader::type_of(module);
  const bool is_known = known.module == module && known.type == type;
  if (is_known && known.is_named && known.destroyed == destroyed) [[likely]]
    return true;
  if (!is_known) {
    // The frames before it belong to what was at that address until now.
    if (pending.frames.count > 0 && !push_frames(pending, place)) return false;
    give_up(place);
    Record record;
    record.module = ModuleRecord();
    record.module.thread = slot.number;
    record.module.address = module;
    const std::string_view name = CodeReader::type_name(type).substr(0, ModuleRecord::kNameBytes);
    record.module.length = static_cast<std::uint8_t>(name.size());
    std::memcpy(record.module.class_name.data(), name.data(), name.size());
    if (!ring_.push(record)) return false;
  }
  known = {module, type, destroyed, described_modules().has(module)};
  if (!known.is_named) described_modules().ask_for(module, type);
  return true;
}

bool Emitter::send_changes(const FrameWalker& walker, ThreadSlot& slot, const Walk& walk,
                           std::uint64_t destroyed, Ring::Place& place) {
  const CachedStack& cached = slot.cached_stack;
  const std::size_t keep = steps_to_keep(walker, slot, walk, destroyed);
  Record record;
  record.frames = FramesRecord();
  FramesRecord& frames = record.frames;
  frames.thread = slot.number;
  frames.keep = static_cast<std::uint16_t>(keep == 0 ? 0 : cached.depth_at(keep - 1));
  for (std::size_t index = keep; index < cached.size(); ++index) {
    if (cached.is_bridge(index)) continue;
    const FrameKey key = cached.key(index);
    if (!introduce(walker, slot, key.code, destroyed, record, place)) return false;
    if (!watches_code_objects())
      slot.quick_hashes[cached.depth_at(index) - 1] = walker.codes().quick_hash(key.code);
    const std::size_t items = key.module == 0 ? 1 : 2;
    if (items == 2 && !introduce_module(slot, key.module, destroyed, record, place)) return false;
    if (frames.count + items > FramesRecord::kFrames && !push_frames(record, place)) return false;
    frames.frames[frames.count++] = {
        code_slot(key.code) | (items == 2 ? FramesRecord::kHasModule : 0),
        walker.instruction_offset(key)};
    if (items == 2) frames.frames[frames.count++] = FramesRecord::module_item(key.module);
    ++frames.frame_count;
  }
  // Also with nothing left: the drain must learn that the stack got shorter.
  if (!push_frames(record, place)) return false;
  slot.destroyed_seen = destroyed;
  return true;
}

bool Emitter::describe(const FrameWalker& walker, ThreadSlot& slot, std::uintptr_t code,
                       std::uint16_t number) {
  CodeText text;
  slot.codes[number] = {};
  if (!walker.codes().read_code(code, text, slot.text)) return false;
  CodeHead head;
  head.first_line = text.first_line;
  head.table_bytes = static_cast<std::uint32_t>(text.line_table.size());
  head.name_bytes = static_cast<std::uint16_t>(text.name.size());
  head.file_bytes = static_cast<std::uint16_t>(text.file.size());
  CodeSender sender(ring_, slot.number, number);
  sender.send({reinterpret_cast<const char*>(&head), sizeof(head)});
  sender.send(text.name);
  sender.send(text.file);
  sender.send(text.line_table);
  return sender.finish();
}

}  // namespace gpumemprof::capture
