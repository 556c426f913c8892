#include "bindings.h"

NB_MODULE(_core, module) {
  // A user's script may end with a recording still in a global: that is not a leak to warn about.
  nanobind::set_leak_warnings(false);
  module.doc() = "The native part of gpumemprof; use the package, not this module.";
  module.attr("__version__") = GPUMEMPROF_VERSION;
  gpumemprof::bindings::bind_errors(module);
  gpumemprof::bindings::bind_recording(module);
  gpumemprof::bindings::bind_labels(module);
  gpumemprof::bindings::bind_leaks(module);
  gpumemprof::bindings::bind_places(module);
  gpumemprof::bindings::bind_steps(module);
  gpumemprof::bindings::bind_report(module);
  gpumemprof::bindings::bind_whatif(module);
  gpumemprof::bindings::bind_advice(module);
  gpumemprof::bindings::bind_tables(module);
  gpumemprof::bindings::bind_cli(module);
  gpumemprof::bindings::bind_capture(module);
  gpumemprof::bindings::bind_counting(module);
  gpumemprof::bindings::bind_estimate(module);
  gpumemprof::bindings::bind_failure(module);
  gpumemprof::bindings::bind_follow(module);
  gpumemprof::bindings::bind_frames(module);
}
