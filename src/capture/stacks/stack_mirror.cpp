#include "capture/stacks/stack_mirror.h"

#include <algorithm>
#include <cstring>

#include "capture/shown_files.h"

namespace gpumemprof::capture {
namespace {

constexpr std::uint32_t kNoCode = 0xFFFFFFFF;

std::uint64_t pair_key(std::uint32_t high, std::uint32_t low) {
  return (static_cast<std::uint64_t>(high) << 32) | low;
}

// torch.autograd.backward() and grad(), and the function both call from torch 2.2 on.
bool runs_backward(std::string_view name, std::string_view file) {
  return name == "_engine_run_backward" ||
         ((name == "backward" || name == "grad") && file.ends_with("torch/autograd/__init__.py"));
}

}  // namespace

StackMirror::ThreadStack& StackMirror::thread_stack(std::uint16_t thread) {
  if (thread >= threads_.size()) threads_.resize(thread + std::size_t{1});
  if (!threads_[thread]) threads_[thread] = std::make_unique<ThreadStack>();
  return *threads_[thread];
}

bool StackMirror::is_hidden(std::string_view file) const {
  return std::any_of(hidden_files_.begin(), hidden_files_.end(),
                     [&](const std::string& beginning) { return file.starts_with(beginning); });
}

void StackMirror::take(const FramesRecord& record) {
  ThreadStack& mine = thread_stack(record.thread);
  // A record before this one was lost: the emitter will send the whole stack again.
  if (record.keep > mine.path.size()) {
    mine.path.clear();
    return;
  }
  mine.path.resize(record.keep);
  for (std::size_t index = 0; index < record.count; ++index) {
    const FramesRecord::Item& item = record.frames[index];
    const std::uint32_t slot = item.code & ~FramesRecord::kHasModule;
    const std::uint32_t code = slot < mine.code_by_slot.size() ? mine.code_by_slot[slot] : kNoCode;
    std::uint32_t module = kNoModule;
    if ((item.code & FramesRecord::kHasModule) != 0 && index + 1 < record.count) {
      module = modules_.number_at(FramesRecord::module_address(record.frames[++index]));
    }
    if (code == kNoCode) {
      mine.path.clear();
      return;
    }
    enter(mine, code, item.instruction, module);
  }
}

void StackMirror::enter(ThreadStack& mine, std::uint32_t code, std::uint32_t instruction,
                        std::uint32_t module) {
  const StackId caller = mine.path.empty() ? StackId() : mine.path.back().stack;
  if (codes_[code].is_hidden) {  // The level stays, since records count levels.
    mine.path.push_back({caller, code, module});
    return;
  }
  const FrameId frame = frame_at(code, instruction, module);
  mine.path.push_back({add_stack(caller, frame, code, module), code, module});
}

void StackMirror::move(std::uint16_t thread, std::uint32_t instruction) {
  ThreadStack& mine = thread_stack(thread);
  if (mine.path.empty()) return;
  const Level innermost = mine.path.back();
  mine.path.pop_back();
  enter(mine, innermost.code, instruction, innermost.module);
}

void StackMirror::take(const CodeRecord& record) {
  ThreadStack& mine = thread_stack(record.thread);
  if (record.is_first != 0) {
    mine.pending.clear();
    mine.pending_slot = record.slot;
  } else if (mine.pending.empty() || mine.pending_slot != record.slot) {
    return;  // its beginning was lost
  }
  mine.pending.append(record.bytes.data(), record.length);
  finish_code(mine);
}

void StackMirror::finish_code(ThreadStack& mine) {
  CodeHead head;
  if (mine.pending.size() < sizeof(head)) return;
  std::memcpy(&head, mine.pending.data(), sizeof(head));
  const std::size_t whole =
      sizeof(head) + head.name_bytes + head.file_bytes + std::size_t{head.table_bytes};
  if (mine.pending.size() < whole) return;
  std::string_view rest = std::string_view(mine.pending).substr(sizeof(head));
  Code code;
  code.name = strings_.intern(rest.substr(0, head.name_bytes));
  code.file = strings_.intern(shown_file(rest.substr(head.name_bytes, head.file_bytes)));
  code.first_line = head.first_line;
  code.is_hidden = is_hidden(strings_.text(code.file));
  code.runs_backward = runs_backward(strings_.text(code.name), strings_.text(code.file));
  code.line_table = rest.substr(std::size_t{head.name_bytes} + head.file_bytes, head.table_bytes);
  if (mine.code_by_slot.size() <= mine.pending_slot) {
    mine.code_by_slot.resize(mine.pending_slot + std::size_t{1}, kNoCode);
  }
  mine.code_by_slot[mine.pending_slot] = add_code(std::move(code));
  mine.pending.clear();
}

std::uint32_t StackMirror::add_code(Code code) {
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
    found = next;  // two codes with one hash: the newer one is more likely to come again
  }
  codes_.push_back(std::move(code));
  return next;
}

FrameId StackMirror::frame_at(std::uint32_t code, std::uint32_t instruction, std::uint32_t module) {
  const auto next = static_cast<std::uint32_t>(frames_.size());
  const std::uint32_t found = frames_by_place_.find_or_insert(pair_key(code, instruction), next);
  if (found == next) {
    const Code& known = codes_[code];
    frames_.push_back({known.name, known.file,
                       line_of(format_, known.line_table, known.first_line, instruction)});
  }
  if (module == kNoModule) return FrameId(found);
  const auto fresh = static_cast<std::uint32_t>(frames_.size());
  const std::uint32_t own = frames_by_module_.find_or_insert(pair_key(found, module), fresh);
  if (own == fresh) frames_.push_back(Frame(frames_[found]));
  return FrameId(own);
}

StackId StackMirror::add_stack(StackId caller, FrameId frame, std::uint32_t code,
                               std::uint32_t module) {
  const auto next = static_cast<std::uint32_t>(stacks_.size());
  const std::uint32_t found =
      stacks_by_step_.find_or_insert(pair_key(caller.index, frame.index), next);
  if (found != next) return StackId(found);
  Step step{caller, frame, module, module};
  if (module == kNoModule && !caller.is_none()) {
    step.module = stacks_[caller.index].module;
    if (!codes_[code].runs_backward) step.module_inside = stacks_[caller.index].module_inside;
  }
  stacks_.push_back(step);
  return StackId(found);
}

std::uint32_t StackMirror::module_of(StackId stack, StackId forward_stack) const {
  const auto step = [&](StackId id) { return id.is_none() ? Step() : stacks_[id.index]; };
  if (forward_stack.is_none()) return step(stack).module;
  // What a node itself calls comes first: a checkpoint recomputes its modules.
  if (step(stack).module_inside != kNoModule) return step(stack).module_inside;
  const std::uint32_t forward = step(forward_stack).module;
  return forward != kNoModule ? forward : step(stack).module;
}

StackId StackMirror::stack_of(std::uint16_t thread) const {
  if (thread >= threads_.size() || !threads_[thread] || threads_[thread]->path.empty())
    return StackId();
  return threads_[thread]->path.back().stack;
}

void StackMirror::take(const NativeRecord& record) {
  ThreadStack& mine = thread_stack(record.thread);
  std::vector<std::uint64_t>& path = mine.native_path;
  if (record.number != kNoNative) {
    if (record.number >= mine.native.size()) mine.native.resize(record.number + std::size_t{1});
    mine.native[record.number] = NativePath();
  }
  if (record.keep > path.size()) {  // a record before this one was lost
    path.clear();
    return;
  }
  path.resize(record.keep);
  path.insert(path.end(), record.addresses.begin(), record.addresses.begin() + record.count);
  if (record.number != kNoNative) mine.native[record.number].addresses = path;
}

StackId StackMirror::native_stack_of(std::uint16_t thread, std::uint32_t number, StackId below) {
  ThreadStack& mine = thread_stack(thread);
  if (number >= mine.native.size()) return below;
  NativePath& path = mine.native[number];
  if (path.generation == native_generation_ && path.below == below) return path.stack;
  path.below = path.stack = below;
  path.generation = native_generation_;
  for (const std::uint64_t address : path.addresses)
    path.stack = add_native_stack(path.stack, native_frame(address));
  return path.stack;
}

StackId StackMirror::add_native_stack(StackId caller, FrameId frame) {
  const auto next = static_cast<std::uint32_t>(stacks_.size());
  const std::uint32_t found =
      stacks_by_step_.find_or_insert(pair_key(caller.index, frame.index), next);
  if (found != next) return StackId(found);
  Step step{caller, frame};
  if (!caller.is_none()) {
    step.module = stacks_[caller.index].module;
    step.module_inside = stacks_[caller.index].module_inside;
  }
  stacks_.push_back(step);
  return StackId(found);
}

FrameId StackMirror::native_frame(std::uint64_t address) {
  const auto next = static_cast<std::uint32_t>(frames_.size());
  if (const std::uint32_t* known = native_frames_.find(address)) return FrameId(*known);
  native_frames_.insert_or_assign(address, next);
  Frame frame{StringId(), strings_.intern(""), 0};
  if (address == kLeftOutCallers) {
    frame.name = strings_.intern("(callers left out)");
  } else if (const auto place =
                 address == kUnknownCaller ? std::nullopt : native_modules_.find(address)) {
    frame.name = strings_.intern(native_address_text(place->address));
    frame.file = strings_.intern(native_modules_.module(place->module).key);
    native_module_of_.insert_or_assign(frame.file.index, place->module);
  } else {
    frame.name = strings_.intern(address == kUnknownCaller ? "(unknown)" : "(unknown code)");
  }
  frames_.push_back(frame);
  return FrameId(next);
}

const NativeModule* StackMirror::native_module(const Frame& frame) const {
  if (frame.file.is_none()) return nullptr;
  const std::uint32_t* module = native_module_of_.find(frame.file.index);
  return module == nullptr ? nullptr : &native_modules_.module(*module);
}

bool StackMirror::forget_unloaded() {
  if (native_frames_.size() == 0 || !native_modules_.have_some_gone()) return false;
  native_frames_.clear();
  ++native_generation_;
  return true;
}

}  // namespace gpumemprof::capture
