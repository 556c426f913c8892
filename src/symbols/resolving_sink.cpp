#include "symbols/resolving_sink.h"

#include <algorithm>
#include <ranges>

#include "base/utf8.h"

namespace gpumemprof {
namespace {

// The outermost frames of every stack, which say nothing about the program.
bool starts_programs(std::string_view path, std::string_view name) {
  const std::string_view file = path.substr(path.rfind('/') + 1);
  return name == "_start" || file.starts_with("libc.so") || file.starts_with("libc-") ||
         file.starts_with("libpthread") || file.starts_with("libstdc++") ||
         file.starts_with("ld-linux");
}

}  // namespace

void ResolvingSink::add_native_module(const NativeModule& module) {
  modules_.insert_or_assign(module.key, module);
}

const NativeModule* ResolvingSink::module_of(const Frame& frame) const {
  if (modules_.empty() || frame.line != 0 || frame.file.is_none()) return nullptr;
  const auto found = modules_.find(to_.text(frame.file));
  return found == modules_.end() ? nullptr : &found->second;
}

FrameId ResolvingSink::add_frame(const Frame& frame) {
  const NativeModule* module = module_of(frame);
  const std::optional<std::uint64_t> address = module == nullptr || frame.name.is_none()
                                                   ? std::nullopt
                                                   : native_address(to_.text(frame.name));
  if (!address) return to_.add_frame(frame);
  Resolved resolved;
  const std::vector<SourceFrame> frames = symbols_.frames_at(*module, *address);
  resolved.only_starts = starts_programs(module->path, frames.back().name);
  for (const SourceFrame& found : std::views::reverse(frames)) {
    resolved.frames.push_back(
        to_.add_frame({to_.add_string(repaired_utf8(found.name)),
                       to_.add_string(repaired_utf8(found.file)), found.line}));
  }
  resolved_.push_back(std::move(resolved));
  return FrameId(static_cast<std::uint32_t>(kFirstResolved + resolved_.size() - 1));
}

StackId ResolvingSink::add_stack(StackId caller, FrameId frame) {
  if (frame.is_none() || frame.index < kFirstResolved) return to_.add_stack(caller, frame);
  const Resolved& resolved = resolved_[frame.index - kFirstResolved];
  if (caller.is_none() && resolved.only_starts) return caller;
  for (const FrameId step : resolved.frames) caller = to_.add_stack(caller, step);
  return caller;
}

void ResolvingSink::set_origin(const Origin& origin) {
  std::string notes;
  for (const std::string& note : symbols_.notes()) notes += (notes.empty() ? "" : "\n") + note;
  if (notes.empty()) return to_.set_origin(origin);
  Origin known = origin;
  std::erase_if(known.facts, [](const auto& fact) { return fact.first == kNativeSymbolsFact; });
  known.facts.emplace_back(kNativeSymbolsFact, notes);
  to_.set_origin(known);
}

}  // namespace gpumemprof
