#include "analysis/code/user_frame.h"

#include <algorithm>
#include <array>

namespace gpumemprof {

bool is_library_file(std::string_view file) {
  constexpr std::array<std::string_view, 7> kLibraryParts = {
      "/site-packages/", "/dist-packages/", "/lib/python3", "/torchinductor_",
      "/inductor/",      "/torch/csrc/",    "/aten/"};
  constexpr std::array<std::string_view, 6> kNativeEndings = {".cpp", ".cc", ".cu",
                                                              ".h",   ".so", ".c"};
  if (file.empty() || file.front() == '<' || file == "??") return true;
  const auto contains = [file](std::string_view part) {
    return file.find(part) != std::string_view::npos;
  };
  const auto ends = [file](std::string_view ending) { return file.ends_with(ending); };
  return std::any_of(kLibraryParts.begin(), kLibraryParts.end(), contains) ||
         std::any_of(kNativeEndings.begin(), kNativeEndings.end(), ends);
}

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

StackId user_part(const Store& store, StackId stack) {
  for (StackId part = stack; !part.is_none(); part = store.stacks().caller(part)) {
    const Frame& frame = store.frame(store.stacks().frame(part));
    if (!is_library_file(store.text(frame.file))) return part;
  }
  return stack;
}

}  // namespace gpumemprof
