#include "redirect/listing.h"

#include <cerrno>

#include "redirect/layer.h"
#include "redirect/scratch.h"

namespace gpumemprof::redirect {
namespace {

PathText in_room(void (Scratch::*room)(std::string_view, PathText&) const, const Place& folder) {
  PathText path;
  (scratch().*room)(folder.path.view(), path);
  return path;
}

// An empty file, folder or link that a listing shows with the kind of the one that it stands for.
void make_entry(const PathText& listing, const Place& shown) {
  PathText entry(listing);
  entry.append_name(shown.path.name());
  if (shown.is_folder()) {
    kernel(SYS_mkdirat, AT_FDCWD, entry.c_str(), 0700);
  } else if (shown.is_link()) {
    kernel(SYS_symlinkat, "link", AT_FDCWD, entry.c_str());
  } else {
    mode_t kind = shown.status.st_mode & S_IFMT;
    kind = kind == S_IFCHR || kind == S_IFBLK ? S_IFREG : kind;
    kernel(SYS_mknodat, AT_FDCWD, entry.c_str(), kind | 0600U, 0);
  }
}

long fill_listing(const PathText& listing, const Place& folder) {
  MergedReader names(folder);
  if (!names.is_open()) {
    return -EACCES;
  }
  Place shown;
  for (std::string_view name = names.next(); !name.empty(); name = names.next()) {
    shown.path = folder.path;
    shown.path.append_name(name);
    look(shown, folder.hides_real);
    if (shown.exists()) {
      make_entry(listing, shown);
    }
  }
  return 0;
}

// The same key means the same names: nothing of ours has changed since, nor the real folder.
void listing_key(const Place& folder, PathText& out) {
  uint64_t key = scratch().changes();
  const auto mix = [&](uint64_t value) { key = (key ^ value) * 0x9e3779b97f4a7c15U; };
  for (const char byte : folder.path.view()) {
    mix(static_cast<unsigned char>(byte));
  }
  struct stat real{};
  if (folder.is_real && kernel_lstat(folder.path.c_str(), real) == 0) {
    mix(static_cast<uint64_t>(real.st_mtim.tv_sec));
    mix(static_cast<uint64_t>(real.st_mtim.tv_nsec));
  }
  out.assign(scratch().folder());
  out.append("/listings/");
  out.append_hex(key);
}

void make_folders_below(PathText& folder, std::string_view path) {
  kernel(SYS_mkdirat, AT_FDCWD, folder.c_str(), 0700);
  const size_t root = folder.size();
  for (size_t slash = path.find('/', 1);; slash = path.find('/', slash + 1)) {
    folder.resize(root);
    folder.append(part_of(path, 0, slash));
    kernel(SYS_mkdirat, AT_FDCWD, folder.c_str(), 0700);
    if (slash == std::string_view::npos) {
      return;
    }
  }
}

}  // namespace

MergedReader::MergedReader(const Place& folder)
    : written_path_(in_room(&Scratch::written, folder)),
      removed_path_(in_room(&Scratch::removed, folder)),
      written_(folder.is_written ? written_path_.c_str() : ""),
      real_(folder.is_real ? folder.path.c_str() : "") {}

bool MergedReader::is_shown(std::string_view name) const {
  PathText path(written_path_);
  path.append_name(name);
  struct stat status{};
  if (kernel_lstat(path.c_str(), status) == 0) {
    return false;  // it was shown among what is written
  }
  path = removed_path_;
  path.append_name(name);
  return kernel_lstat(path.c_str(), status) < 0 || !S_ISREG(status.st_mode);
}

std::string_view MergedReader::next() {
  if (written_.is_open()) {
    const std::string_view name = written_.next();
    if (!name.empty()) {
      return name;
    }
  }
  if (real_.is_open()) {
    for (std::string_view name = real_.next(); !name.empty(); name = real_.next()) {
      if (is_shown(name)) {
        return name;
      }
    }
  }
  return {};
}

bool differs_from_real(const Place& folder) {
  if (folder.is_real_only) {
    return false;
  }
  if (folder.is_written) {
    return true;
  }
  struct stat status{};
  const PathText removed = in_room(&Scratch::removed, folder);
  return scratch().may_be_touched(folder.path.view()) && kernel_lstat(removed.c_str(), status) == 0;
}

bool is_empty_folder(const Place& folder) {
  MergedReader names(folder);
  return names.next().empty();
}

long open_folder(const Place& folder, int flags) {
  if ((flags & O_PATH) != 0 || !differs_from_real(folder)) {
    return kernel_open(folder.backing.c_str(), flags);
  }
  if (const long error = may_access(folder, 4, AT_EACCESS); error < 0) {
    return error;
  }
  PathText key;
  listing_key(folder, key);
  PathText ready(key);
  ready.append(folder.path.view());
  const long found = kernel_open(ready.c_str(), flags);
  if (found >= 0) {
    return found;
  }
  PathText top;
  scratch().temporary(top);
  PathText fresh(top);
  make_folders_below(fresh, folder.path.view());
  if (const long error = fill_listing(fresh, folder); error < 0) {
    return error;
  }
  if (kernel_rename(top.c_str(), key.c_str()) < 0) {
    remove_tree(top);  // another thread was faster
  }
  return kernel_open(ready.c_str(), flags);
}

}  // namespace gpumemprof::redirect
