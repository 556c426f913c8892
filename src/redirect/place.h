// Where a path leads: its virtual path without links, and the file that the kernel finds it by.
#pragma once

#include <sys/stat.h>

#include "redirect/path_text.h"

namespace gpumemprof::redirect {

struct Place {
  PathText path;  // virtual: as the program sees it, without links in it (the last name may be one)
  PathText backing;  // the real file, or that below `written`; meaningful if it exists
  // Never redirected; only `path` and `status` are filled in.
  bool is_real_only = false;
  // Something of ours is at this path. What was renamed has only a link to the real file.
  bool is_written = false;
  bool is_renamed = false;
  // The real file is at this path and was not removed. A folder may be both: then it is merged.
  bool is_real = false;
  // Nothing real is visible here or below, so names below need no look at what is real.
  bool hides_real = false;
  // Why the real one could not be looked at (EACCES), negated; 0 also if there is none.
  long error = 0;
  // The path ended with a slash.
  bool wants_folder = false;
  struct stat status{};

  [[nodiscard]] bool exists() const { return is_written || is_real; }
  [[nodiscard]] bool is_folder() const { return exists() && S_ISDIR(status.st_mode); }
  [[nodiscard]] bool is_link() const { return exists() && S_ISLNK(status.st_mode); }
  [[nodiscard]] bool is_merged() const { return is_written && is_real; }
  // Its bytes are those of a file that must not change.
  [[nodiscard]] bool is_borrowed() const { return !is_written || is_renamed; }
};

enum class LastLink { follow, keep };

// Resolves a path as the kernel would, links and all. 0 also if only its last name does not exist;
// else the error.
long resolve(int folder_fd, const char* path, LastLink last, Place& place);

// Fills in what is at place.path. `parent_hides_real`: nothing real is visible in its folder.
void look(Place& place, bool parent_hides_real);

// The same for a path whose folders were not looked at.
void look_anew(Place& place);

// The virtual path that a descriptor is open at (AT_FDCWD: the current folder); for what has none,
// a negated errno.
long path_of_descriptor(int fd, PathText& path);

// "/proc/self/fd/3": how the kernel finds an open file by path.
void descriptor_link(int fd, PathText& out);

}  // namespace gpumemprof::redirect
