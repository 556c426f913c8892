#include "analysis/code/user_frame.h"

namespace gpumemprof {

bool is_python(const Store& store, FrameId frame) {
  const std::string_view file = store.text(store.frame(frame).file);
  return file.ends_with(".py") || file.starts_with('<');
}

StackId python_part(const Store& store, StackId stack) {
  for (StackId part = stack; !part.is_none(); part = store.stacks().caller(part)) {
    if (is_python(store, store.stacks().frame(part))) return part;
  }
  return {};
}

StackId line_part(const Store& store, StackId stack) {
  const StackId python = python_part(store, stack);
  for (StackId part = stack; !part.is_none() && part != python;
       part = store.stacks().caller(part)) {
    if (is_users_native(store.text(store.frame(store.stacks().frame(part)).file))) return part;
  }
  return python.is_none() ? python : user_part(store, python);
}

StackId user_part(const Store& store, StackId stack) {
  for (StackId part = stack; !part.is_none(); part = store.stacks().caller(part)) {
    const Frame& frame = store.frame(store.stacks().frame(part));
    if (!is_library_file(store.text(frame.file))) return part;
  }
  return stack;
}

}  // namespace gpumemprof
