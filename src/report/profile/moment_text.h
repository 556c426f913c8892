// The moment of a profile in words.
#pragma once

#include <string>

#include "analysis/stack_profile/stack_profile.h"

namespace gpumemprof {

// "at the peak", "at the end", "after event 12".
inline std::string moment_text(const ProfiledMoment& moment) {
  if (moment.is_end) return "at the end";
  if (moment.kind == AskedMoment::Kind::peak) return "at the peak";
  return "after event " + std::to_string(moment.event);
}

}  // namespace gpumemprof
