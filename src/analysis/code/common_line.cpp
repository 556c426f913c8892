#include "analysis/code/common_line.h"

#include <map>

#include "analysis/code/user_frame.h"

namespace gpumemprof {

FrameId common_line(const Store& store,
                    const std::vector<std::pair<StackId, std::uint64_t>>& bytes_of_stacks) {
  std::map<std::uint32_t, std::uint64_t> bytes_under;
  std::uint64_t all_bytes = 0;
  for (const auto& [stack, bytes] : bytes_of_stacks) {
    all_bytes += bytes;
    for (StackId at = stack; !at.is_none(); at = store.stacks().caller(at))
      bytes_under[at.index] += bytes;
  }
  FrameId line;
  // A caller precedes its callee.
  for (const auto& [index, bytes] : bytes_under) {
    const FrameId frame = store.stacks().frame(StackId(index));
    constexpr std::uint64_t kParts = 20;
    const bool is_nearly_all = kParts * bytes >= (kParts - 1) * all_bytes;
    if (is_nearly_all && !is_library_file(store.text(store.frame(frame).file))) line = frame;
  }
  return line;
}

}  // namespace gpumemprof
