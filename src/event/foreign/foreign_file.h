// Files of other tools, read as recordings of what they contain: the kinds of Origin they have, and
// the facts that say what they lack.
#pragma once

#include <string_view>

#include "event/recording.h"

namespace gpumemprof {

// A trace of torch.profiler, a device memory profile of JAX.
inline constexpr std::string_view kTraceOfProfiler = "profiler_trace";
inline constexpr std::string_view kProfileOfJax = "jax_memory_profile";

// That nothing is known about segments, and what else is missing: a sentence on each line, without
// its full stop.
inline constexpr std::string_view kPoolFact = "pool";
inline constexpr std::string_view kNotRecorded = "not recorded";
inline constexpr std::string_view kLimitsFact = "limits";

// Whether memory comes from a pool of segments, and the recording shows them.
bool has_pool(const Origin& origin);

}  // namespace gpumemprof
