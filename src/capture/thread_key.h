// The pthread key under which Python keeps each thread's own state.
//
// Every stack walk begins with that state, and Python's function that returns it costs more than
// the rest of the walk. The function reads a pthread key, but does not say which. On a new thread
// that nothing else has used yet, the key that holds the state can only be Python's.
#pragma once

#include <pthread.h>

#include <optional>

namespace gpumemprof::capture {

using AskThreadState = void* (*)();

// Call on a thread that only Python has used; none if that is not so, or if two keys match.
std::optional<pthread_key_t> find_thread_key(AskThreadState ask);

}  // namespace gpumemprof::capture
