#include "analysis/code/whence.h"

#include <utility>

#include "analysis/code/torch_code.h"

namespace gpumemprof {
namespace {

template <typename T>
void put_at(std::vector<T>& rows, std::size_t row, T value) {
  if (rows.size() <= row) rows.resize(row + 1);
  rows[row] = value;
}

}  // namespace

Whence whence(const DeviceRecord& record, std::size_t row) {
  const std::uint32_t event = record.allocations.alloc_event[row];
  const Column<StackId>& forward = record.events.forward_stack;
  return whence(record.allocations.stack[row], event < forward.size() ? forward[event] : StackId());
}

FrameId OwnStacksFirst::add_frame(const Frame& frame) {
  const FrameId id = to_.add_frame(frame);
  const std::string_view file = to_.text(frame.file);
  Kind kind = Kind::program;
  if (is_library_file(file)) {
    const bool is_backward =
        meaning_of_frame(file, to_.text(frame.name)).role == FrameRole::backward;
    kind = is_backward ? Kind::backward : Kind::library;
  }
  put_at(frames_, id.index, kind);
  return id;
}

StackId OwnStacksFirst::add_stack(StackId caller, FrameId frame) {
  const StackId id = to_.add_stack(caller, frame);
  Kind kind = frame.index < frames_.size() ? frames_[frame.index] : Kind::library;
  if (kind == Kind::library && caller.index < stacks_.size()) kind = stacks_[caller.index];
  put_at(stacks_, id.index, kind);
  return id;
}

void OwnStacksFirst::add_events(DeviceIndex device, EventColumns&& events) {
  for (std::size_t row = 0; row < events.forward_stack.size(); ++row) {
    const StackId own = events.stack[row];
    if (own.index < stacks_.size() && stacks_[own.index] == Kind::program)
      events.forward_stack[row] = StackId();
  }
  to_.add_events(device, std::move(events));
}

}  // namespace gpumemprof
