// WindowTaker: copies what it needs from each window of a device, while the summary of the whole
// run passes over it.
#pragma once

#include <vector>

#include "analysis/sources/sources.h"
#include "windows/device_pass.h"

namespace gpumemprof {

class WindowTaker {
 public:
  WindowTaker() = default;
  WindowTaker(const WindowTaker&) = delete;
  WindowTaker& operator=(const WindowTaker&) = delete;
  virtual ~WindowTaker() = default;

  // A window of the run, labelled; what it leaves live has its death. `spans` are numbered as the
  // view is.
  virtual void take(const KeptRun& run, const LocalView& view, const Window& window,
                    const std::vector<PhaseSpan>& spans) = 0;
};

}  // namespace gpumemprof
