#include "report/view/labels.h"

#include <fmt/core.h>

#include "analysis/code/shown_file.h"
#include "analysis/code/user_frame.h"
#include "base/printable.h"
#include "event/event.h"
#include "report/text/place.h"
#include "report/text/text_format.h"

namespace gpumemprof::view {

std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json bytes_or_null(std::uint64_t bytes) { return bytes == kUnknownBytes ? Json() : Json(bytes); }
Json time_or_null(std::int64_t time_ns) { return time_ns == kUnknownTime ? Json() : Json(time_ns); }
Json text_or_null(const Store& store, StringId text) {
  return text.is_none() ? Json() : Json(store.text(text));
}
std::string address_text(std::uint64_t address) { return fmt::format("0x{:x}", address); }

std::string shown(std::string_view name) {
  constexpr std::size_t kMostColumns = 500;
  return text::shortened(printable(name), kMostColumns);
}

std::string frame_label(const Store& store, FrameId frame, GroupBy by) {
  if (!frame.is_none()) return shown(text::place(store, frame));
  if (by == GroupBy::module) return std::string(kNoModuleLabel);
  return std::string(by == GroupBy::line ? kNoLine : kNoStack);
}

std::string stack_label(const Store& store, StackId stack) {
  if (stack.is_none()) return std::string(kNoStack);
  const auto label = [&](StackId part) {
    return shown(text::place(store, store.stacks().frame(part)));
  };
  const StackId line = line_part(store, stack);
  if (line.is_none()) return label(stack);
  // As in the report: below a line of C++ there is nothing but the allocator, nor is there below
  // the innermost line of Python.
  if (!is_python(store, store.stacks().frame(line))) return label(line);
  const StackId innermost = python_part(store, stack);
  return line == innermost ? label(line) : label(line) + " → " + label(innermost);
}

Json frame_json(const Store& store, FrameId id) {
  const Frame& frame = store.frame(id);
  return {shown(store.text(frame.name)),
          shown(store.text(frame.file)),
          frame.line,
          is_library_file(store.text(frame.file)) ? 0 : 1,
          shown(text::place(store, id)),
          shown(shown_file(store.text(frame.file), store.program_folder()))};
}

Json stack_frames(const Store& store, StackId stack) {
  constexpr std::size_t kMostFrames = 1000;
  constexpr std::size_t kMostBytes = std::size_t{128} << 10;
  Json frames = Json::array();
  if (stack.is_none()) return frames;
  std::size_t bytes = 0;
  for (const FrameId id : store.stacks().frames_of(stack)) {
    if (frames.size() == kMostFrames || bytes > kMostBytes) break;
    const Frame& frame = store.frame(id);
    std::string name = shown(store.text(frame.name));
    std::string file = shown(shown_file(store.text(frame.file), store.program_folder()));
    bytes += name.size() + file.size();
    frames.push_back({std::move(name), std::move(file), frame.line,
                      is_library_file(store.text(frame.file)) ? 0 : 1});
  }
  return frames;
}

}  // namespace gpumemprof::view
