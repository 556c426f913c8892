#include "redirect/place.h"

#include <cerrno>

#include "redirect/kernel.h"
#include "redirect/scratch.h"

namespace gpumemprof::redirect {
namespace {

constexpr int kMaxLinks = 40;

// The text of a link, as the program shall see it.
long read_link(const char* path, PathText& target) {
  const long size = kernel(SYS_readlinkat, AT_FDCWD, path, target.data(), PathText::capacity());
  if (size >= 0) {
    target.resize(static_cast<size_t>(size));
  }
  return size;
}

// A real file that was renamed: the link names the real path.
bool follow_origin(Place& place) {
  PathText target;
  if (read_link(place.backing.c_str(), target) < 0) {
    return false;
  }
  PathText origin(scratch().folder());
  origin.append("/origin");
  if (!is_below(target.view(), origin.view()) || target.size() == origin.size()) {
    return false;
  }
  place.backing.assign(part_of(target.view(), origin.size()));
  return kernel_lstat(place.backing.c_str(), place.status) == 0;
}

// The folder shows the identity of the real one, so that it stays the same one when something is
// written into it.
void merge_folder_status(Place& place, const struct stat& real) {
  struct stat& shown = place.status;
  shown.st_dev = real.st_dev;
  shown.st_ino = real.st_ino;
  shown.st_nlink = 1;
  // The copy can always be written to by us; that is not the mode of the folder.
  if (shown.st_mode == (real.st_mode | S_IRWXU)) {
    shown.st_mode = real.st_mode;
  }
}

bool is_hidden(std::string_view path) {
  PathText mark;
  scratch().removed(path, mark);
  struct stat status{};
  const long found = kernel_lstat(mark.c_str(), status);
  return found == -ENOTDIR || (found == 0 && S_ISREG(status.st_mode));
}

// Why it cannot be looked at, unless there is simply nothing.
void note_real(Place& place, long found) {
  place.is_real = found == 0;
  place.error = found == -ENOENT || found == -ENOTDIR ? 0 : found;
}

class Walk {
 public:
  Walk(Place& place, LastLink last) : place_(place), last_(last) {}

  long start(int folder_fd, const char* path) {
    if (path[0] == '\0') {
      return -ENOENT;
    }
    if (path[0] == '/') {
      place_.path.assign("");
    } else if (const long error = path_of_descriptor(folder_fd, place_.path); error < 0) {
      return error;
    }
    rest_.assign(path);
    return rest_.is_too_long() ? -ENAMETOOLONG : 0;
  }

  long run() {
    // A relative path starts in a folder that may be hidden or be ours alone.
    look_anew(place_);
    hidden_from_ = place_.hides_real ? place_.path.size() : kNever;
    size_t at = 0;
    while (true) {
      const std::string_view rest = rest_.view();
      at = rest.find_first_not_of('/', at);
      if (at == std::string_view::npos) {
        place_.wants_folder = place_.wants_folder || (!rest.empty() && rest.back() == '/');
        return place_.path.is_too_long() ? -ENAMETOOLONG : 0;
      }
      size_t end = rest.find('/', at);
      end = end == std::string_view::npos ? rest.size() : end;
      const std::string_view name = part_of(rest, at, end - at);
      const bool is_last = rest.find_first_not_of('/', end) == std::string_view::npos;
      if (const long error = enter(name, is_last, end); error != 0) {
        return error;
      }
      at = is_replaced_ ? 0 : end;
    }
  }

 private:
  static constexpr size_t kNever = ~size_t{0};

  // One name further; `end` is where it ends in the rest of the path.
  long enter(std::string_view name, bool is_last, size_t end) {
    is_replaced_ = false;
    if (!place_.path.view().empty() && !place_.is_real_only && !place_.exists()) {
      return -ENOENT;
    }
    if (place_.exists() && !place_.is_folder()) {
      return -ENOTDIR;
    }
    place_.wants_folder = is_last && (name == "." || name == "..");
    if (name == ".") {
      return 0;
    }
    if (name == "..") {
      place_.path.remove_name();
      look_again();
      return 0;
    }
    if (name.size() > NAME_MAX) {
      return -ENAMETOOLONG;
    }
    place_.path.append_name(name);
    if (place_.path.is_too_long()) {
      return -ENAMETOOLONG;
    }
    look_again();
    if (place_.error != 0 && !place_.exists()) {
      return place_.error;
    }
    const bool has_slash = end < rest_.size();
    if (!place_.is_link() || (is_last && !has_slash && last_ == LastLink::keep)) {
      return !is_last && !place_.exists() ? -ENOENT : 0;
    }
    return follow(end);
  }

  long follow(size_t end) {
    PathText target;
    if (const long size = read_link(place_.backing.c_str(), target); size < 0) {
      return size;
    }
    scratch().to_virtual(target);
    if (is_below(place_.path.view(), "/proc") && !leads_somewhere(target)) {
      return 0;
    }
    if (++links_ > kMaxLinks) {
      return -ELOOP;
    }
    target.append(part_of(rest_.view(), end));
    if (target.is_too_long()) {
      return -ENAMETOOLONG;
    }
    rest_ = target;
    is_replaced_ = true;
    if (target.size() == 0 || target.view().front() == '/') {
      place_.path.assign("");
    } else {
      place_.path.remove_name();
    }
    look_again();
    return 0;
  }

  // The links of /proc lead to open files, some of which have no path.
  [[nodiscard]] bool leads_somewhere(const PathText& target) const {
    constexpr std::string_view kDeleted = " (deleted)";
    const std::string_view text = target.view();
    if (text.empty() || (text.front() != '/' && text.find(':') != std::string_view::npos)) {
      return false;
    }
    return text.size() < kDeleted.size() ||
           part_of(text, text.size() - kDeleted.size()) != kDeleted;
  }

  void look_again() {
    if (hidden_from_ != kNever && place_.path.size() <= hidden_from_) {
      hidden_from_ = kNever;
      look_anew(place_);
    } else {
      look(place_, hidden_from_ != kNever);
    }
    if (place_.hides_real && hidden_from_ == kNever) {
      hidden_from_ = place_.path.size();
    }
  }

  Place& place_;
  LastLink last_;
  PathText rest_;
  size_t hidden_from_ = kNever;
  int links_ = 0;
  bool is_replaced_ = false;
};

}  // namespace

void descriptor_link(int fd, PathText& out) {
  char digits[12];
  size_t count = 0;
  do {
    digits[sizeof(digits) - ++count] = static_cast<char>('0' + fd % 10);
    fd /= 10;
  } while (fd != 0);
  out.assign("/proc/self/fd/");
  out.append({digits + sizeof(digits) - count, count});
}

long path_of_descriptor(int fd, PathText& path) {
  if (fd == AT_FDCWD) {
    // With its final zero.
    const long size = kernel(SYS_getcwd, path.data(), PathText::capacity());
    if (size < 0) {
      return size;
    }
    path.resize(static_cast<size_t>(size) - 1);
  } else {
    if (fd < 0) {
      return -EBADF;
    }
    PathText link;
    descriptor_link(fd, link);
    const long size = read_link(link.c_str(), path);
    if (size < 0) {
      return size == -ENOENT ? -EBADF : size;
    }
  }
  if (path.view().empty() || path.view().front() != '/') {
    return fd == AT_FDCWD ? -ENOENT : -ENOTDIR;
  }
  scratch().to_virtual(path);
  if (path.view() == "/") {
    path.assign("");
  }
  return 0;
}

void look(Place& place, bool parent_hides_real) {
  const Scratch& shared = scratch();
  place.is_written = place.is_renamed = place.is_real = false;
  place.error = 0;
  place.hides_real = parent_hides_real;
  place.is_real_only = shared.is_real(place.path.view());
  if (place.is_real_only) {
    place.hides_real = false;
    place.backing.assign(place.path.view());
    note_real(place, kernel_lstat(place.path.c_str(), place.status));
    return;
  }
  const bool may_be_ours = parent_hides_real || shared.may_be_touched(place.path.view());
  if (may_be_ours) {
    shared.written(place.path.view(), place.backing);
    place.is_written = kernel_lstat(place.backing.c_str(), place.status) == 0;
    if (place.is_written && S_ISLNK(place.status.st_mode)) {
      place.is_renamed = follow_origin(place);
    }
    place.hides_real = parent_hides_real || is_hidden(place.path.view());
  }
  if (place.hides_real) {
    return;
  }
  struct stat real{};
  note_real(place, kernel_lstat(place.path.c_str(), real));
  if (!place.is_real) {
    place.hides_real = place.is_written;
  } else if (!place.is_written) {
    place.status = real;
    place.backing.assign(place.path.view());
  } else if (S_ISDIR(place.status.st_mode) && S_ISDIR(real.st_mode)) {
    merge_folder_status(place, real);
  }
}

void look_anew(Place& place) {
  bool hides_real = false;
  if (!place.path.view().empty()) {
    hides_real = is_hidden(place.path.parent());
    if (!hides_real) {
      struct stat status{};
      const PathText parent(place.path.parent());
      hides_real = kernel_lstat(parent.c_str(), status) != 0;
    }
  }
  look(place, hides_real);
}

long resolve(int folder_fd, const char* path, LastLink last, Place& place) {
  if (path == nullptr) {
    return -EFAULT;
  }
  Walk walk(place, last);
  if (const long error = walk.start(folder_fd, path); error < 0) {
    return error;
  }
  return walk.run();
}

}  // namespace gpumemprof::redirect
