#include "capture/frame_walker.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "capture/foreign_memory.h"

namespace gpumemprof::capture {
namespace {

// A frame on its thread's own stack of frames, one behind the other.
constexpr std::uint8_t kThreadOwner = 0;
// From this owner on a frame is a bridge between C and Python and has no code of its own.
constexpr std::uint8_t kFirstBridgeOwner = 3;
// 3.14 marks references it has borrowed in the low bits.
constexpr std::uintptr_t kReferenceMarks = 7;

constexpr std::size_t kObjectType = 8;
constexpr std::size_t kTextLength = 16;
constexpr std::size_t kTextHash = 24;
constexpr std::size_t kTextState = 32;
constexpr std::size_t kBytesLength = 16;
constexpr std::size_t kBytesData = 32;
constexpr std::uint32_t kCompactBit = 0x20;
constexpr std::uint32_t kAsciiBit = 0x40;
constexpr std::size_t kMaxTableBytes = std::size_t{64} * 1024;

std::uint64_t mix(std::uint64_t hash, std::uint64_t word) {
  hash = (hash ^ word) * 0x9E3779B97F4A7C15ULL;
  return hash ^ (hash >> 29);
}

std::uint64_t mix_bytes(std::uint64_t hash, std::string_view bytes) {
  hash = mix(hash, bytes.size());
  std::size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) {
    hash = mix(hash, read_raw<std::uint64_t>(reinterpret_cast<std::uintptr_t>(bytes.data()) + at));
  }
  std::uint64_t rest = 0;
  std::memcpy(&rest, bytes.data() + at, bytes.size() - at);
  return mix(hash, rest);
}

unsigned kind_of(std::uint32_t state) { return (state >> 2) & 7U; }

std::string_view bytes_object(std::uintptr_t bytes) {
  const auto size = read_raw<std::int64_t>(bytes + kBytesLength);
  if (size < 0) return {};
  return {pointer_at<const char>(bytes + kBytesData), static_cast<std::size_t>(size)};
}

std::uint32_t character_at(std::uintptr_t data, unsigned kind, std::size_t index) {
  if (kind == 1) return read_raw<std::uint8_t>(data + index);
  if (kind == 2) return read_raw<std::uint16_t>(data + 2 * index);
  return read_raw<std::uint32_t>(data + 4 * index);
}

// Appends one character; false when it does not fit.
bool put_utf8(std::span<char> buffer, std::size_t& size, std::uint32_t character) {
  if (character >= 0xD800 && character < 0xE000)
    character = '?';  // a lone half of a pair is no text
  const std::size_t length = character < 0x80      ? 1U
                             : character < 0x800   ? 2U
                             : character < 0x10000 ? 3U
                                                   : 4U;
  if (size + length > buffer.size()) return false;
  if (length == 1) {
    buffer[size++] = static_cast<char>(character);
    return true;
  }
  constexpr std::uint8_t kLead[] = {0, 0, 0xC0, 0xE0, 0xF0};
  buffer[size++] = static_cast<char>(kLead[length] | (character >> (6 * (length - 1))));
  for (std::size_t left = length - 1; left > 0; --left) {
    buffer[size++] = static_cast<char>(0x80U | ((character >> (6 * (left - 1))) & 0x3FU));
  }
  return true;
}

// Where 3.12 and 3.13 have them: numbers the compiler can put into its instructions.
struct CommonOffsets {
  // NOLINTBEGIN(readability-identifier-naming): they stand where AnyOffsets has members.
  static constexpr std::size_t previous = 8;
  static constexpr std::size_t code = 0;
  static constexpr std::size_t instruction = 56;
  static constexpr std::size_t owner = 70;
  // NOLINTEND(readability-identifier-naming)
  static constexpr std::uintptr_t kCodeMask = ~std::uintptr_t{0};

  static bool fit(const PythonLayout& layout) {
    return layout.minor <= 13 && layout.previous == previous && layout.code == code &&
           layout.instruction == instruction && layout.owner == owner;
  }
};

struct AnyOffsets {
  explicit AnyOffsets(const PythonLayout& layout)
      : previous(layout.previous),
        code(layout.code),
        instruction(layout.instruction),
        owner(layout.owner) {}
  std::size_t previous;
  std::size_t code;
  std::size_t instruction;
  std::size_t owner;
  static constexpr std::uintptr_t kCodeMask = ~kReferenceMarks;
};

void compare(Walk& walk, const FrameKey* frames, const FrameKey* last, std::size_t last_count) {
  const std::size_t most = std::min(walk.count, last_count);
  while (walk.kept < most &&
         frames[walk.count - 1 - walk.kept] == last[last_count - 1 - walk.kept]) {
    ++walk.kept;
  }
  if (walk.count != last_count) return;
  walk.is_same = walk.kept == last_count;
  walk.has_moved = walk.kept + 1 == last_count && frames[0].code == last[0].code;
}

template <typename Offsets>
class FrameChain {
 public:
  FrameChain(Offsets offsets, Trail& old, Trail& trail)
      : offsets_(offsets), old_(old), trail_(trail) {}

  // The usual case: all is as it was, but perhaps for the innermost instruction.
  bool walk_same(std::uintptr_t frame, FrameKey* frames, const FrameKey* last,
                 std::size_t last_count, Walk& walk) {
    if (old_.count == 0 || old_.steps[0].frame != frame ||
        read_raw<std::uintptr_t>(frame + offsets_.code) != old_.code || same_until(0) != old_.count)
      return false;
    frames[0] = key_of(frame);
    old_.steps[0].instruction = frames[0].instruction;
    walk.count = last_count;
    walk.is_same = frames[0] == last[0];
    walk.has_moved = !walk.is_same;
    walk.kept = walk.is_same ? last_count : last_count - 1;
    return true;
  }

  void walk_anew(std::uintptr_t frame, FrameKey* frames, const FrameKey* last,
                 std::size_t last_count, Walk& walk) {
    trail_.count = 0;
    std::size_t at = 0;       // in the old trail, which is looked at once, from its beginning on
    std::size_t differs = 0;  // up to here the old trail is known not to lead to its end
    while (frame != 0 && walk.count < kMaxDepth) {
      const auto owner = read_raw<std::uint8_t>(frame + offsets_.owner);
      if (owner >= kFirstBridgeOwner) {
        frame = step_from(frame, Trail::kBridge);
        continue;
      }
      if (owner == kThreadOwner) at = find(frame, at);
      if (at >= differs && is_old(frame, at)) {
        differs = same_until(at);
        if (differs == old_.count) {
          join(at, frames, last, last_count, walk);
          return compare(walk, frames, last, last_count);
        }
      }
      frames[walk.count++] = key_of(frame);
      frame = step_from(frame, 0);
    }
    if (frame != 0) forget();  // it goes on behind what was kept
    number(trail_.count, walk.count);
    compare(walk, frames, last, last_count);
  }

 private:
  // The hot loop: up to where, from a step whose frame is as it was on, every frame lies where it
  // lay, runs the same code and stands at the same instruction; all steps where the last of them
  // still is the outermost. A place is read only after its callee has told that it is still there.
  [[nodiscard]] std::size_t same_until(std::size_t first) const {
    const Trail::Step* step = old_.steps.data() + first;
    const Trail::Step* const end = old_.steps.data() + old_.count;
    std::uintptr_t frame = step->frame;
    for (++step; step != end; ++step) {
      std::uintptr_t known = step->frame;
      if (previous_of(frame) != known) break;
      // Keeps the compiler from taking the place out of the callee again, for which the processor
      // would have to wait.
      asm("" : "+r"(known));
      frame = known;
      // An instruction lies inside its code, so the same one is of the same code: a code object
      // that took the place of a dead one is the caller's concern.
      if (read_raw<std::uintptr_t>(frame + offsets_.instruction) != step->instruction) break;
    }
    const auto same = static_cast<std::size_t>(step - old_.steps.data());
    return same == old_.count && previous_of(frame) != 0 ? same - 1 : same;
  }

  // The first step of the old trail from `at` on that may be this frame: callers lie below the
  // frames they call. Where they do not, no more is lost than time.
  [[nodiscard]] std::size_t find(std::uintptr_t frame, std::size_t at) const {
    while (at < old_.count &&
           (old_.steps[at].frame > frame || old_.outward[at] == Trail::kBridge)) {
      ++at;
    }
    return at;
  }
  [[nodiscard]] bool is_old(std::uintptr_t frame, std::size_t at) const {
    return at < old_.count && old_.steps[at].frame == frame &&
           read_raw<std::uintptr_t>(frame + offsets_.instruction) == old_.steps[at].instruction;
  }

  // From here on everything is as before.
  void join(std::size_t at, FrameKey* frames, const FrameKey* last, std::size_t last_count,
            Walk& walk) {
    const std::size_t rest = old_.outward[at];
    const std::size_t steps = old_.count - at;
    const bool fits = walk.count + rest <= kMaxDepth && trail_.count + steps <= trail_.steps.size();
    walk.kept = fits ? rest : 0;
    const std::size_t taken = std::min(rest, kMaxDepth - walk.count);
    std::copy_n(last + (last_count - rest), taken, frames + walk.count);
    if (walk.count == 0)
      trail_.code = read_raw<std::uintptr_t>(old_.steps[at].frame + offsets_.code);
    walk.count += taken;
    if (!fits) return forget();
    const std::size_t own = trail_.count;
    std::copy_n(old_.steps.data() + at, steps, trail_.steps.data() + own);
    std::copy_n(old_.outward.data() + at, steps, trail_.outward.data() + own);
    trail_.count = own + steps;
    number(own, walk.count);
  }

  // Of the first steps, how many frames with code there are from each one outwards.
  void number(std::size_t steps, std::size_t frames) {
    for (std::size_t step = 0; step < steps; ++step) {
      if (trail_.outward[step] != Trail::kBridge)
        trail_.outward[step] = static_cast<std::uint16_t>(frames--);
    }
  }
  void forget() { trail_.count = 0; }

  // The frame that called this one, which goes onto the trail.
  std::uintptr_t step_from(std::uintptr_t frame, std::uint16_t outward) {
    // A trail starts with the innermost frame that has code.
    if (trail_.count < trail_.steps.size() && (trail_.count > 0 || outward != Trail::kBridge)) {
      if (trail_.count == 0) trail_.code = read_raw<std::uintptr_t>(frame + offsets_.code);
      trail_.outward[trail_.count] = outward;
      trail_.steps[trail_.count++] = {frame,
                                      read_raw<std::uintptr_t>(frame + offsets_.instruction)};
    }
    return previous_of(frame);
  }

  [[nodiscard]] std::uintptr_t previous_of(std::uintptr_t frame) const {
    return read_raw<std::uintptr_t>(frame + offsets_.previous);
  }
  [[nodiscard]] FrameKey key_of(std::uintptr_t frame) const {
    return {read_raw<std::uintptr_t>(frame + offsets_.code) & Offsets::kCodeMask,
            read_raw<std::uintptr_t>(frame + offsets_.instruction)};
  }

  Offsets offsets_;
  Trail& old_;
  Trail& trail_;
};

template <typename Offsets>
Walk walk_chain(Offsets offsets, std::uintptr_t innermost, FrameKey* frames, const FrameKey* last,
                std::size_t last_count, Trail*& trail, Trail*& spare) {
  FrameChain<Offsets> chain(offsets, *trail, *spare);
  Walk walk;
  if (chain.walk_same(innermost, frames, last, last_count, walk)) [[likely]]
    return walk;
  chain.walk_anew(innermost, frames, last, last_count, walk);
  std::swap(trail, spare);
  return walk;
}

}  // namespace

std::uintptr_t FrameWalker::running_frame() const {
  const auto thread = reinterpret_cast<std::uintptr_t>(layout_.this_thread_state());
  if (thread == 0) return 0;
  const auto frame = read_raw<std::uintptr_t>(thread + layout_.thread_frame);
  if (!layout_.has_cframe || frame == 0) return frame;
  return read_raw<std::uintptr_t>(frame + layout_.cframe_frame);
}

Walk FrameWalker::walk(FrameKey* frames, const FrameKey* last, std::size_t last_count,
                       Trail*& trail, Trail*& spare) const {
  if (layout_.has_frame_objects) return walk_frame_objects(frames, last, last_count);
  const std::uintptr_t innermost = running_frame();
  if (CommonOffsets::fit(layout_)) {
    return walk_chain(CommonOffsets{}, innermost, frames, last, last_count, trail, spare);
  }
  return walk_chain(AnyOffsets(layout_), innermost, frames, last, last_count, trail, spare);
}

Walk FrameWalker::walk_frame_objects(FrameKey* frames, const FrameKey* last,
                                     std::size_t last_count) const {
  Walk walk;
  for (std::uintptr_t frame = running_frame(); frame != 0 && walk.count < kMaxDepth;
       frame = read_raw<std::uintptr_t>(frame + layout_.previous)) {
    const auto instruction = read_raw<std::int32_t>(frame + layout_.instruction);
    frames[walk.count++] = {
        read_raw<std::uintptr_t>(frame + layout_.code),
        static_cast<std::uintptr_t>(std::max(instruction, 0)) * layout_.instruction_unit};
  }
  compare(walk, frames, last, last_count);
  return walk;
}

std::uint64_t FrameWalker::fingerprint(std::uintptr_t code) const {
  const std::string_view table = bytes_object(read_raw<std::uintptr_t>(code + layout_.line_table));
  std::uint64_t hash = read_raw<std::uint32_t>(code + layout_.first_line);
  hash = mix_bytes(hash, raw_text(read_raw<std::uintptr_t>(code + layout_.name)));
  hash = mix_bytes(hash, raw_text(read_raw<std::uintptr_t>(code + layout_.file)));
  // A long table is told by its two ends and its length; the rest would cost more than it could
  // find.
  constexpr std::size_t kEndBytes = 128;
  hash = mix_bytes(mix(hash, table.size()), table.substr(0, kEndBytes));
  if (table.size() > kEndBytes) hash = mix_bytes(hash, table.substr(table.size() - kEndBytes));
  return hash;
}

std::uint64_t FrameWalker::glance(std::uintptr_t code) const {
  const auto name = read_raw<std::uintptr_t>(code + layout_.name);
  const auto file = read_raw<std::uintptr_t>(code + layout_.file);
  // Names are interned, so their hash is there; of the file, generated names differ at their end.
  std::uint64_t hash = read_raw<std::uint64_t>(name + kTextHash) ^
                       read_raw<std::uint32_t>(code + layout_.first_line);
  hash = mix(hash, file ^ read_raw<std::uintptr_t>(code + layout_.line_table));
  const std::string_view text = raw_text(file);
  if (text.size() >= 8)
    hash ^= read_raw<std::uint64_t>(reinterpret_cast<std::uintptr_t>(text.end()) - 8);
  return hash ^ text.size();
}

std::string_view FrameWalker::raw_text(std::uintptr_t text) const {
  const auto state = read_raw<std::uint32_t>(text + kTextState);
  const auto length = read_raw<std::int64_t>(text + kTextLength);
  if ((state & kCompactBit) == 0 || length < 0) return {};
  const std::size_t data = (state & kAsciiBit) != 0 ? layout_.ascii_data : layout_.compact_data;
  return {pointer_at<const char>(text + data), static_cast<std::size_t>(length) * kind_of(state)};
}

std::string_view FrameWalker::utf8(std::uintptr_t text, std::span<char> buffer) const {
  const auto state = read_raw<std::uint32_t>(text + kTextState);
  const std::string_view raw = raw_text(text);
  if ((state & kAsciiBit) != 0) return raw.substr(0, buffer.size());
  const unsigned kind = kind_of(state);
  if (kind != 1 && kind != 2 && kind != 4) return {};
  std::size_t size = 0;
  const auto data = reinterpret_cast<std::uintptr_t>(raw.data());
  for (std::size_t index = 0; index < raw.size() / kind; ++index) {
    if (!put_utf8(buffer, size, character_at(data, kind, index))) break;
  }
  return {buffer.data(), size};
}

bool FrameWalker::read_code(std::uintptr_t code, CodeText& text,
                            std::span<char, 2 * kTextBytes> buffer) const {
  if (code == 0 || read_raw<const void*>(code + kObjectType) != layout_.code_type) return false;
  const std::span<char> both = buffer;
  text.name = utf8(read_raw<std::uintptr_t>(code + layout_.name), both.first(kTextBytes));
  text.file = utf8(read_raw<std::uintptr_t>(code + layout_.file), both.subspan(kTextBytes));
  text.line_table =
      bytes_object(read_raw<std::uintptr_t>(code + layout_.line_table)).substr(0, kMaxTableBytes);
  text.first_line = read_raw<std::uint32_t>(code + layout_.first_line);
  return true;
}

}  // namespace gpumemprof::capture
