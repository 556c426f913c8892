// What is put into `written` and `removed`: copies of real files, folders to hold them, and marks.
//
// All need the ChangeLock, return 0 or a negated errno, and never change a real file.
#pragma once

#include "redirect/place.h"

namespace gpumemprof::redirect {

enum class Content { copied, empty };

// Puts a copy of a real file, link or folder (without what is in it) into `written`. Nothing if it
// is there already.
long copy_up(Place& place, Content content);

// Makes the folders below `written` that a path needs, each with the mode and times of the real
// one.
long make_folders(std::string_view path);

// Whether the program may add and remove names in the folder of a place, as it could if everything
// were real.
long may_change_names(const Place& place);
// Whether it may remove or rename this one (the sticky bit).
long may_remove(const Place& place);
// Whether it may write to what exists.
long may_write(const Place& place);
// Whether it may change mode, owner, times or attributes.
enum class Allowed { owner, writer };
long may_change_metadata(const Place& place, Allowed allowed);
// access(2) for what exists; the modes of our own folders are not the real ones.
long may_access(const Place& place, int wanted, int flags);

// Hides the real file or folder of this path, if there is one.
long hide_real(const Place& place);

// Removes what `written` has at this path, with all below it.
void remove_written(std::string_view path);

// Time of the last change of the folder that this path is in: now.
void note_folder_change(std::string_view path);

// The bytes of a file, holes kept, and what else belongs to it: owner, mode, attributes, times.
long copy_file(const char* from, const struct stat& status, const char* to, Content content);

// Removes a file or a folder with all below it, both by kernel paths; nothing if it does not exist.
void remove_tree(const PathText& path);

}  // namespace gpumemprof::redirect
