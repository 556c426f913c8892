// The clock of a trace that torch.profiler wrote (Kineto, JSON, gzipped or not).
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace gpumemprof {

// The nanoseconds since 1970 that its times leave out (baseTimeNanoseconds); 0 if it is a trace and
// says nothing, as those of older versions.
Result<std::int64_t> kineto_base_ns(const std::string& path);

}  // namespace gpumemprof
