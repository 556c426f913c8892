// A shortcut for paths in folders that have nothing of ours, as nearly all paths are.
//
// A folder's path is resolved once; that it leads to a folder without anything of ours is then
// remembered, in a table that all threads of the process share without a lock, until a folder or a
// link changes somewhere.
#pragma once

namespace gpumemprof::redirect {

// Whether the kernel's own answer for this path is right, unless its last name is a link that is
// followed.
bool is_in_untouched_folder(int folder_fd, const char* path);

}  // namespace gpumemprof::redirect
