#include "analysis/sources/source_claims.h"

#include "analysis/code/user_frame.h"

namespace gpumemprof {

std::optional<MemorySource> claimant_of(std::string_view file, std::string_view function) {
  for (const MemorySourceInfo& info : kMemorySourceTable) {
    for (const std::string_view code : info.allocating_code) {
      const std::size_t colon = code.find(':');
      if (code.empty() || !lies_in(file, code.substr(0, colon))) continue;
      if (colon == code.npos || plain_name(function) == code.substr(colon + 1)) return info.source;
    }
  }
  return std::nullopt;
}

SourceClaims::SourceClaims(const Store& store) {
  std::vector<std::optional<MemorySource>> frames;
  frames.reserve(store.frames().size());
  for (const Frame& frame : store.frames().span()) {
    frames.push_back(claimant_of(store.text(frame.file), store.text(frame.name)));
    has_any_ = has_any_ || frames.back();
  }
  if (!has_any_) return;
  const StackTrie& stacks = store.stacks();
  stacks_.reserve(stacks.size());
  // A caller is added before its callee.
  for (std::size_t index = 0; index < stacks.size(); ++index) {
    const FrameId frame = stacks.frame(StackId(index));
    const StackId caller = stacks.caller(StackId(index));
    const bool is_native = !is_python(store, frame);
    stacks_.push_back(!is_native         ? frames[frame.index]
                      : caller.is_none() ? std::nullopt
                                         : stacks_[caller.index]);
  }
}

}  // namespace gpumemprof
