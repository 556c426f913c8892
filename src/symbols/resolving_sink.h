// ResolvingSink: passes a recording on with its native frames replaced by those of the source.
//
// One native frame may become several, since compilers inline calls; its stack then becomes as many
// steps. A recording without native frames passes unchanged, and nothing is looked up.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "event/event_sink.h"
#include "event/sinks/forwarding_sink.h"
#include "symbols/symbolizer.h"

namespace gpumemprof {

class ResolvingSink final : public ForwardingSink {
 public:
  // The other one must outlive it.
  explicit ResolvingSink(EventSink& to) : ForwardingSink(to) {}

  void add_native_module(const NativeModule& module) override;
  FrameId add_frame(const Frame& frame) override;
  StackId add_stack(StackId caller, FrameId frame) override;
  void set_origin(const Origin& origin) override;

 private:
  // What a native frame became, outermost first.
  struct Resolved {
    std::vector<FrameId> frames;
    bool only_starts = false;  // of the code that starts programs and threads
  };
  // Frames of ours have numbers from here on: the sink must not mistake them for its own.
  static constexpr std::uint32_t kFirstResolved = 0x8000'0000;

  [[nodiscard]] const NativeModule* module_of(const Frame& frame) const;

  std::map<std::string, NativeModule, std::less<>> modules_;  // by key
  std::vector<Resolved> resolved_;
  Symbolizer symbols_;
};

}  // namespace gpumemprof
