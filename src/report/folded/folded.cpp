#include "report/folded/folded.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <vector>

#include "analysis/code/shown_file.h"
#include "base/printable.h"

namespace gpumemprof {
namespace {

// A semicolon would end the frame and a line end the stack; a line end is no printable character.
std::string escaped(std::string_view text) {
  std::string safe = printable(text);
  std::ranges::replace(safe, ';', ':');
  return safe;
}

std::string frame_text(const Store& store, FrameId id) {
  const Frame& frame = store.frame(id);
  const std::string file = shown_file(store.text(frame.file), store.program_folder());
  if (file.empty()) return escaped(store.text(frame.name));
  if (frame.line == 0) return escaped(fmt::format("{} ({})", store.text(frame.name), file));
  return escaped(fmt::format("{} ({}:{})", store.text(frame.name), file, frame.line));
}

std::string stack_text(const Store& store, const LiveGroup& group) {
  if (group.stack.is_none()) return "[no stack]";
  std::string text;
  const std::vector<FrameId> frames = store.stacks().frames_of(group.stack);
  for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame) {
    if (!text.empty()) text += ';';
    text += frame_text(store, *frame);
  }
  if (group.is_backward) text += ";[backward]";
  return text;
}

}  // namespace

std::string folded_stacks(const Overview& overview, const Store& store) {
  const auto largest = std::ranges::max_element(
      overview.devices, {}, [](const DeviceOverview& one) { return one.live.allocated_bytes; });
  if (largest == overview.devices.end()) return "";
  // Stacks that differ only in what is not shown are one line.
  std::map<std::string, std::uint64_t> bytes_of_stack;
  for (const LiveGroup& group : largest->live.groups)
    bytes_of_stack[stack_text(store, group)] += group.bytes;
  std::string text;
  for (const auto& [stack, bytes] : bytes_of_stack) text += fmt::format("{} {}\n", stack, bytes);
  return text;
}

Status write_folded_stacks(const Overview& overview, const Store& store, const std::string& path,
                           FileSink::Existing existing) {
  const Result<std::unique_ptr<FileSink>> file =
      FileSink::create(path, existing, FileSink::Appears::when_closed);
  if (!file) return file.error();
  const std::string text = folded_stacks(overview, store);
  const Status written = file.value()->write(std::as_bytes(std::span(text)));
  if (!written) return written;
  return file.value()->close();
}

}  // namespace gpumemprof
