// Renaming and hard links in the merged view. A real file that is renamed is not copied: a link in
// `written` names it.
#pragma once

#include "redirect/place.h"

namespace gpumemprof::redirect {

long call_rename(int from_fd, const char* from, int to_fd, const char* to, unsigned flags);
long call_link(int from_fd, const char* from, int to_fd, const char* to, int flags);

}  // namespace gpumemprof::redirect
