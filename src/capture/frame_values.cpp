#include <cstring>

#include "capture/capture.h"
#include "capture/stacks/python_layout.h"

namespace gpumemprof::capture {
namespace {

// 3.11 and 3.12: a frame object points to the interpreter's own frame.
constexpr std::size_t kInterpreterFrame = 24;
// More than any frame's calculations hold; a larger number means that it was misread.
constexpr std::size_t kMostValues = 4096;

template <class Value>
Value read_at(std::uintptr_t address) {
  Value value{};
  std::memcpy(&value, reinterpret_cast<const void*>(address), sizeof(Value));  // NOLINT
  return value;
}

Error elsewhere() {
  return {ErrorCode::environment, "this Python keeps the variables of frames elsewhere", "", ""};
}

}  // namespace

Result<std::vector<std::uintptr_t>> frame_values(std::uintptr_t frame_object,
                                                 std::size_t variables) {
  static const Result<PythonLayout> layout = find_python_layout();
  if (!layout) return layout.error();
  if (layout->minor > 12) return elsewhere();
  std::size_t count = variables;
  std::uintptr_t frame = frame_object;
  if (!layout->has_frame_objects) {
    frame = read_at<std::uintptr_t>(frame_object + kInterpreterFrame);
    if (frame == 0) return elsewhere();
    // How many values there are, or -1 while the frame is running.
    const auto used = read_at<std::int32_t>(frame + layout->instruction + 8U);
    if (used >= 0) count = static_cast<std::size_t>(used);
    if (count > variables + kMostValues) return elsewhere();
  }
  std::vector<std::uintptr_t> values(count);
  for (std::size_t index = 0; index < count; ++index)
    values[index] = read_at<std::uintptr_t>(frame + layout->locals + index * 8);
  return values;
}

}  // namespace gpumemprof::capture
