#include "capture/stack_book.h"

#include <cstring>

namespace gpumemprof::capture {
namespace {

constexpr std::uint32_t kNoCode = 0xFFFFFFFF;

std::uint64_t pair_key(std::uint32_t high, std::uint32_t low) {
  return (static_cast<std::uint64_t>(high) << 32) | low;
}

}  // namespace

StackBook::Mirror& StackBook::mirror(std::uint16_t thread) {
  if (thread >= mirrors_.size()) mirrors_.resize(thread + std::size_t{1});
  if (!mirrors_[thread]) mirrors_[thread] = std::make_unique<Mirror>();
  return *mirrors_[thread];
}

void StackBook::take(const FramesRecord& record) {
  Mirror& mine = mirror(record.thread);
  // A record before this one was lost: the emitter will send the whole stack again.
  if (record.keep > mine.path.size()) {
    mine.path.clear();
    return;
  }
  mine.path.resize(record.keep);
  for (std::size_t index = 0; index < record.count; ++index) {
    const FramesRecord::Item& item = record.frames[index];
    const std::uint32_t code =
        item.code < mine.code_by_slot.size() ? mine.code_by_slot[item.code] : kNoCode;
    if (code == kNoCode) {
      mine.path.clear();
      return;
    }
    enter(mine, code, item.instruction);
  }
}

void StackBook::enter(Mirror& mirror, std::uint32_t code, std::uint32_t instruction) {
  const StackId caller = mirror.path.empty() ? StackId() : mirror.path.back().stack;
  mirror.path.push_back({add_stack(caller, frame_at(code, instruction)), code});
}

void StackBook::move(std::uint16_t thread, std::uint32_t instruction) {
  Mirror& mine = mirror(thread);
  if (mine.path.empty()) return;
  const std::uint32_t code = mine.path.back().code;
  mine.path.pop_back();
  enter(mine, code, instruction);
}

void StackBook::take(const CodeRecord& record) {
  Mirror& mine = mirror(record.thread);
  if (record.is_first != 0) {
    mine.pending.clear();
    mine.pending_slot = record.slot;
  } else if (mine.pending.empty() || mine.pending_slot != record.slot) {
    return;  // its beginning was lost
  }
  mine.pending.append(record.bytes.data(), record.length);
  finish_code(mine);
}

void StackBook::finish_code(Mirror& mirror) {
  CodeHead head;
  if (mirror.pending.size() < sizeof(head)) return;
  std::memcpy(&head, mirror.pending.data(), sizeof(head));
  const std::size_t whole =
      sizeof(head) + head.name_bytes + head.file_bytes + std::size_t{head.table_bytes};
  if (mirror.pending.size() < whole) return;
  std::string_view rest = std::string_view(mirror.pending).substr(sizeof(head));
  Code code;
  code.name = strings_.intern(rest.substr(0, head.name_bytes));
  code.file = strings_.intern(rest.substr(head.name_bytes, head.file_bytes));
  code.first_line = head.first_line;
  code.line_table = rest.substr(std::size_t{head.name_bytes} + head.file_bytes, head.table_bytes);
  if (mirror.code_by_slot.size() <= mirror.pending_slot) {
    mirror.code_by_slot.resize(mirror.pending_slot + std::size_t{1}, kNoCode);
  }
  mirror.code_by_slot[mirror.pending_slot] = add_code(std::move(code));
  mirror.pending.clear();
}

std::uint32_t StackBook::add_code(Code code) {
  std::uint64_t hash =
      hash_bytes(code.line_table) ^ pair_key(code.name.index, code.file.index) ^ code.first_line;
  if (hash == FlatMap<std::uint32_t>::kEmpty) hash = 0;
  const auto next = static_cast<std::uint32_t>(codes_.size());
  std::uint32_t& found = codes_by_hash_.find_or_insert(hash, next);
  if (found != next) {
    const Code& known = codes_[found];
    if (known.name == code.name && known.file == code.file && known.first_line == code.first_line &&
        known.line_table == code.line_table) {
      return found;
    }
    found = next;  // two codes with one hash: the newer one is the one to come again
  }
  codes_.push_back(std::move(code));
  return next;
}

FrameId StackBook::frame_at(std::uint32_t code, std::uint32_t instruction) {
  const auto next = static_cast<std::uint32_t>(frames_.size());
  const std::uint32_t found = frames_by_place_.find_or_insert(pair_key(code, instruction), next);
  if (found == next) {
    const Code& known = codes_[code];
    frames_.push_back({known.name, known.file,
                       line_of(format_, known.line_table, known.first_line, instruction)});
  }
  return FrameId(found);
}

StackId StackBook::add_stack(StackId caller, FrameId frame) {
  const auto next = static_cast<std::uint32_t>(stacks_.size());
  const std::uint32_t found =
      stacks_by_step_.find_or_insert(pair_key(caller.index, frame.index), next);
  if (found == next) stacks_.push_back({caller, frame});
  return StackId(found);
}

StackId StackBook::stack_of(std::uint16_t thread) const {
  if (thread >= mirrors_.size() || !mirrors_[thread] || mirrors_[thread]->path.empty())
    return StackId();
  return mirrors_[thread]->path.back().stack;
}

}  // namespace gpumemprof::capture
