// Where an allocation came from: its own stack, or, if backward made it, that of the forward op
// whose gradient was computed. The one rule, for reports, tables, leaks, live and the viewer.
#pragma once

#include <cstddef>
#include <vector>

#include "event/sinks/forwarding_sink.h"
#include "store/store.h"

namespace gpumemprof {

struct Whence {
  StackId stack;             // none: no stack was recorded
  bool is_backward = false;  // the backward of what the stack calls made it
};

inline Whence whence(StackId own, StackId forward) {
  return forward.is_none() ? Whence{own, false} : Whence{forward, true};
}
Whence whence(const DeviceRecord& record, std::size_t row);

// Passes a recording on without the forward stacks of what code of the program allocates itself
// while backward runs: in a hook, the backward of a custom function, or forward again under a
// checkpoint. Those have stacks of their own, which say more.
class OwnStacksFirst final : public ForwardingSink {
 public:
  using ForwardingSink::ForwardingSink;

  FrameId add_frame(const Frame& frame) override;
  StackId add_stack(StackId caller, FrameId frame) override;
  void add_events(DeviceIndex device, EventColumns&& events) override;

 private:
  enum class Kind : std::uint8_t { library, backward, program };

  // By number; what the innermost frame that is either says: the program's own, or torch's
  // backward.
  std::vector<Kind> frames_;
  std::vector<Kind> stacks_;
};

}  // namespace gpumemprof
