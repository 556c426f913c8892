// The about block: where a recording comes from, what is known about it, the allocator's settings.
#pragma once

#include "event/allocator_settings.h"
#include "event/recording.h"
#include "trace/bytes_io.h"

namespace gpumemprof::trace {

void encode_about(OutBytes& out, const Origin& origin, const AllocatorSettings& settings);
bool decode_about(InBytes in, Origin& origin, AllocatorSettings& settings);

}  // namespace gpumemprof::trace
