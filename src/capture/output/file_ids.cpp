#include "capture/output/file_ids.h"

#include <algorithm>
#include <ranges>

namespace gpumemprof::capture {
namespace {

// Frames around a program that was started through us, which say nothing about it.
bool only_starts_the_program(std::string_view file) {
  constexpr std::string_view kFiles[] = {
      "/gpumemprof/__main__.py",
      "/gpumemprof/recorder/run.py",
      "/gpumemprof/verify/apply/__main__.py",
      "/bin/gpumemprof",
      "/runpy.py",
      "<frozen runpy>",
  };
  return std::ranges::any_of(kFiles, [&](std::string_view end) { return file.ends_with(end); });
}

}  // namespace

StackId FileIds::stack(StackId id, const StackMirror& mirror) {
  if (id.is_none()) return id;
  if (stacks_.size() <= id.index) stacks_.resize(mirror.stack_count());
  StackId& mine = stacks_[id.index];
  if (!mine.is_none()) return mine;
  // Callers first: a stack is added from its outermost frame on.
  std::vector<StackId> missing;
  StackId caller = id;
  while (!caller.is_none() && stacks_[caller.index].is_none()) {
    missing.push_back(caller);
    caller = mirror.caller(caller);
  }
  StackId added = caller.is_none() ? StackId() : stacks_[caller.index];
  for (const StackId step : std::views::reverse(missing)) {
    const Frame& frame = mirror.frame(mirror.innermost(step));
    if (added.is_none() && only_starts_the_program(mirror.text(frame.file))) continue;
    if (const NativeModule* module = mirror.native_module(frame))
      writer_.add_native_module(*module);
    const FrameId frame_id =
        writer_.add_frame({string(frame.name, mirror), string(frame.file, mirror), frame.line});
    added = stacks_[step.index] = writer_.add_stack(added, frame_id);
  }
  return added;
}

StringId FileIds::string(StringId id, const StackMirror& mirror) {
  if (strings_.size() <= id.index) strings_.resize(id.index + std::size_t{1});
  StringId& mine = strings_[id.index];
  if (mine.is_none()) mine = writer_.add_string(mirror.text(id));
  return mine;
}

StringId FileIds::tag(std::uint16_t tag, const std::vector<std::string>& tags) {
  if (tag >= tags.size()) return StringId();
  if (tags_.size() < tags.size()) tags_.resize(tags.size());
  if (tags_[tag].is_none()) tags_[tag] = writer_.add_string(tags[tag]);
  return tags_[tag];
}

std::uint32_t FileIds::stream(std::uint64_t handle) {
  std::uint32_t& mine = streams_.find_or_insert(handle, kNoEvent);
  if (mine == kNoEvent) mine = writer_.add_stream(handle);
  return mine;
}

std::uint32_t FileIds::pool(PoolId pool) {
  std::uint32_t& mine = pools_.find_or_insert((pool.graph << 32) ^ pool.user, kNoPool);
  if (mine == kNoPool) mine = writer_.add_pool(pool);
  return mine;
}

bool FileIds::set_defined(std::uint32_t number) {
  if (defined_modules_.size() <= number) defined_modules_.resize(number + std::size_t{1});
  const bool was_defined = defined_modules_[number];
  defined_modules_[number] = true;
  return was_defined;
}

std::uint32_t FileIds::module(std::uint32_t number, const StackMirror& mirror) {
  if (number == kNoModule || set_defined(number)) return number;
  const NumberedModule& module = mirror.modules().module(number);
  ModuleLabel label;
  if (module.is_named) label.path = writer_.add_string(module.path);
  label.class_name = writer_.add_string(module.class_name);
  label.number = number;
  label.is_root = module.is_root;
  writer_.add_module(label);
  return number;
}

void FileIds::describe_modules(const std::vector<ModuleDescription>& modules,
                               const std::vector<std::uint32_t>& numbers) {
  for (std::size_t row = 0; row < modules.size(); ++row) {
    const ModuleDescription& module = modules[row];
    const ModuleLabel label{writer_.add_string(module.path),
                            writer_.add_string(module.class_name),
                            writer_.add_string(module.forward_file),
                            module.forward_line,
                            module.forward_last_line,
                            numbers[row],
                            module.is_root};
    // A program that keeps recreating its model describes it each time.
    if (!described_.insert(label).second) continue;
    if (label.number != kNoModule) set_defined(label.number);
    writer_.add_module(label);
  }
}

}  // namespace gpumemprof::capture
