// Starts a program beside this one, from any thread and without the program noticing: it is no
// child of this process (so no wait() of the program finds it), has a session of its own, none of
// its files, and nothing of this process's memory is copied.
#pragma once

#include <string>
#include <vector>

namespace gpumemprof::capture {

// `words`: the path of the program, then its arguments. False if it could not be started.
bool start_detached(const std::vector<std::string>& words);

}  // namespace gpumemprof::capture
