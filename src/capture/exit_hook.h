// os._exit() ends a process without a word to anyone: no atexit function runs, and what the ring
// holds would be lost. Python's call of _exit(2) goes through us, and the recordings are closed
// first.
#pragma once

namespace gpumemprof::capture {

// Leads the calls of _exit made by the program and by libpython to us. Again does no harm. False:
// there are none to lead.
bool watch_exit();

}  // namespace gpumemprof::capture
