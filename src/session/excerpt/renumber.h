// The figures of an excerpt, with the events numbered as in the whole run.
#pragma once

#include "analysis/overview/overview.h"
#include "event/excerpt.h"

namespace gpumemprof {

void renumber(const ExcerptRange& range, DeviceOverview& device);

}  // namespace gpumemprof
