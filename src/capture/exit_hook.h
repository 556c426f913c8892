// os._exit() ends a process without notifying anyone: no atexit function runs, and what the ring
// holds would be lost. Python's call of _exit(2) is redirected to our hook, which closes the
// recordings first.
#pragma once

namespace gpumemprof::capture {

// Redirects the calls of _exit made by the program and by libpython to our hook. Safe to call
// again. False: there are none to redirect.
bool watch_exit();

}  // namespace gpumemprof::capture
