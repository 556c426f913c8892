// The variable of the C library's in which Python keeps each thread's own state.
//
// Every walk of a stack begins with that state, and Python's function that tells it costs more than
// the rest of the walk. The function reads one of pthread's variables, but does not say which. On a
// thread that is new to everybody else, the variable that holds the state can be no other's.
#pragma once

#include <pthread.h>

#include <optional>

namespace gpumemprof::capture {

using AskThreadState = void* (*)();

// On a thread that only Python has seen; none where that is not so, or where there are two such
// variables.
std::optional<pthread_key_t> find_thread_key(AskThreadState ask);

}  // namespace gpumemprof::capture
