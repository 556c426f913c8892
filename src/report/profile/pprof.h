// A profile as pprof reads it: profile.proto, gzipped. Sample types are those of Go's heap profiles
// (alloc_objects, alloc_space, inuse_objects, inuse_space), so that every view of pprof and
// `-diff_base` work; labels: device, source, source_provenance and tag.
#pragma once

#include <string>

#include "analysis/stack_profile/stack_profile.h"
#include "base/result.h"
#include "report/about/about.h"

namespace gpumemprof {

std::string pprof_profile(const StackProfile& profile, const Store& store,
                          const std::vector<AboutLine>& about);

}  // namespace gpumemprof
