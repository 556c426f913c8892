// Folders: reading them, walking trees, patterns of names.
#include <dirent.h>
#include <ftw.h>
#include <glob.h>
#include <unistd.h>

#include <cstdlib>

#include "redirect/calls/calls.h"
#include "redirect/kernel.h"
#include "redirect/place.h"
#include "redirect/replaced/replaced.h"
#include "redirect/scratch.h"

using namespace gpumemprof::redirect;  // NOLINT(google-build-using-namespace): ours are C functions

namespace {

DIR* open_stream(int folder_fd, const char* path) {
  using Type = DIR*(int);
  const long fd = call_open(folder_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK, 0);
  if (finish(fd) < 0) {
    return nullptr;
  }
  DIR* stream = GPUMEMPROF_NEXT(Type, fdopendir)(static_cast<int>(fd));
  if (stream == nullptr) {
    kernel(SYS_close, fd);
  }
  return stream;
}

using Select = int(const dirent*);
using Compare = int(const dirent**, const dirent**);

// The list with room for one more; null if there is no memory, which scandir() reports.
dirent** grown(dirent** list, size_t count) {
  if (count % 64 != 0) {
    return list;
  }
  void* larger = std::realloc(static_cast<void*>(list), (count + 64) * sizeof(dirent*));
  return static_cast<dirent**>(larger);
}

int scan(int folder_fd, const char* path, dirent*** list, Select* select, Compare* compare) {
  DIR* stream = open_stream(folder_fd, path);
  if (stream == nullptr) {
    return -1;
  }
  dirent** found = grown(nullptr, 0);
  size_t count = 0;
  while (const dirent* entry = found == nullptr ? nullptr : readdir(stream)) {
    if (select != nullptr && select(entry) == 0) {
      continue;
    }
    void* copy = std::malloc(entry->d_reclen);
    found = copy == nullptr ? nullptr : grown(found, count);
    if (found != nullptr) {
      std::memcpy(copy, entry, entry->d_reclen);
      found[count++] = static_cast<dirent*>(copy);
    }
  }
  closedir(stream);
  if (found == nullptr) {
    errno = ENOMEM;
    return -1;
  }
  if (compare != nullptr && count > 0) {
    std::qsort(static_cast<void*>(found), count, sizeof(dirent*),
               reinterpret_cast<int (*)(const void*, const void*)>(compare));
  }
  *list = found;
  return static_cast<int>(count);
}

// nftw(3) and, without `extended`, ftw(3).
class TreeWalk {
 public:
  using Visit = int(const char*, const struct stat*, int, FTW*);
  using PlainVisit = int(const char*, const struct stat*, int);

  TreeWalk(Visit* visit, PlainVisit* plain, int flags)
      : visit_(visit), plain_(plain), flags_(flags) {}

  int run(const char* start) {
    path_.assign(start);
    while (path_.size() > 1 && path_.view().back() == '/') {
      path_.resize(path_.size() - 1);
    }
    return enter(0);
  }

 private:
  int report(const struct stat& status, int kind, int level) {
    if (visit_ == nullptr) {
      return plain_(path_.c_str(), &status, kind == FTW_SL ? FTW_F : kind);
    }
    const size_t slash = path_.view().rfind('/');
    FTW where{slash == std::string_view::npos ? 0 : static_cast<int>(slash) + 1, level};
    return visit_(path_.c_str(), &status, kind, &where);
  }

  int enter(int level) {
    struct stat status{};
    const bool follows = (flags_ & FTW_PHYS) == 0;
    long error = call_stat(AT_FDCWD, path_.c_str(), &status, follows ? 0 : AT_SYMLINK_NOFOLLOW);
    int kind = FTW_F;
    if (error < 0 && follows) {
      error = call_stat(AT_FDCWD, path_.c_str(), &status, AT_SYMLINK_NOFOLLOW);
      kind = FTW_SLN;
    }
    if (error < 0) {
      if (level == 0) {
        return static_cast<int>(finish(error));
      }
      return report(status, FTW_NS, level);
    }
    if (level == 0) {
      device_ = status.st_dev;
    } else if ((flags_ & FTW_MOUNT) != 0 && status.st_dev != device_) {
      return 0;
    }
    if (S_ISLNK(status.st_mode)) {
      return report(status, kind == FTW_SLN ? FTW_SLN : FTW_SL, level);
    }
    return S_ISDIR(status.st_mode) ? enter_folder(status, level) : report(status, kind, level);
  }

  int enter_folder(const struct stat& status, int level) {
    DIR* stream = open_stream(AT_FDCWD, path_.c_str());
    if (stream == nullptr) {
      return report(status, FTW_DNR, level);
    }
    const bool is_last = (flags_ & FTW_DEPTH) != 0;
    int result = is_last ? 0 : report(status, FTW_D, level);
    const size_t size = path_.size();
    while (result == 0) {
      const dirent* entry = readdir(stream);
      if (entry == nullptr) {
        break;
      }
      const std::string_view name = entry->d_name;
      if (name != "." && name != "..") {
        path_.append(path_.view() == "/" ? "" : "/");
        path_.append(name);
        result = enter(level + 1);
        path_.resize(size);
      }
    }
    closedir(stream);
    return result == 0 && is_last ? report(status, FTW_DP, level) : result;
  }

  Visit* visit_;
  PlainVisit* plain_;
  int flags_;
  dev_t device_ = 0;
  PathText path_;
};

}  // namespace

GPUMEMPROF_REPLACE(DIR*, opendir, (const char* path)) { return open_stream(AT_FDCWD, path); }

// The folder may have changed since it was opened.
GPUMEMPROF_REPLACE(DIR*, fdopendir, (int fd)) {
  using Type = DIR*(int);
  PathText path;
  if (scratch().is_active() && scratch().changes() != 0 && path_of_descriptor(fd, path) == 0) {
    const Descriptor fresh(
        call_open(AT_FDCWD, path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0));
    if (fresh.is_open()) {
      const long flags = kernel(SYS_fcntl, fd, F_GETFD);
      kernel(SYS_dup3, fresh.get(), fd, (flags & FD_CLOEXEC) != 0 ? O_CLOEXEC : 0);
    }
  }
  return GPUMEMPROF_NEXT(Type, fdopendir)(fd);
}

GPUMEMPROF_REPLACE(int, scandir,
                   (const char* path, dirent*** list, Select* select, Compare* compare)) {
  return scan(AT_FDCWD, path, list, select, compare);
}
GPUMEMPROF_ALSO(scandir, scandir64)
GPUMEMPROF_REPLACE(int, scandirat,
                   (int folder_fd, const char* path, dirent*** list, Select* select,
                    Compare* compare)) {
  return scan(folder_fd, path, list, select, compare);
}
GPUMEMPROF_ALSO(scandirat, scandirat64)

GPUMEMPROF_REPLACE(int, nftw,
                   (const char* path, TreeWalk::Visit* visit, int /*descriptors*/, int flags)) {
  return TreeWalk(visit, nullptr, flags).run(path);
}
GPUMEMPROF_ALSO(nftw, nftw64)
GPUMEMPROF_REPLACE(int, ftw, (const char* path, TreeWalk::PlainVisit* visit, int /*descriptors*/)) {
  return TreeWalk(nullptr, visit, 0).run(path);
}
GPUMEMPROF_ALSO(ftw, ftw64)

GPUMEMPROF_REPLACE(int, glob,
                   (const char* pattern, int flags, int (*failed)(const char*, int),
                    glob_t* found)) {
  using Type = int(const char*, int, int (*)(const char*, int), glob_t*);
  auto* real = GPUMEMPROF_NEXT(Type, glob);
  if (!scratch().is_active() || (flags & GLOB_ALTDIRFUNC) != 0) {
    return real(pattern, flags, failed, found);
  }
  found->gl_opendir = [](const char* path) -> void* { return open_stream(AT_FDCWD, path); };
  found->gl_readdir = [](void* stream) { return readdir(static_cast<DIR*>(stream)); };
  found->gl_closedir = [](void* stream) { closedir(static_cast<DIR*>(stream)); };
  found->gl_stat = [](const char* path, struct stat* status) {
    return static_cast<int>(finish(call_stat(AT_FDCWD, path, status, 0)));
  };
  found->gl_lstat = [](const char* path, struct stat* status) {
    return static_cast<int>(finish(call_stat(AT_FDCWD, path, status, AT_SYMLINK_NOFOLLOW)));
  };
  const int result = real(pattern, flags | GLOB_ALTDIRFUNC, failed, found);
  found->gl_flags &= ~GLOB_ALTDIRFUNC;
  return result;
}
GPUMEMPROF_ALSO(glob, glob64)
