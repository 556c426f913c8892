#include "capture/stream/detached.h"

#include <fcntl.h>
#include <sched.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>

namespace gpumemprof::capture {
namespace {

struct Start {
  const char* program = nullptr;
  char* const* words = nullptr;
  const posix_spawn_file_actions_t* files = nullptr;
  const posix_spawnattr_t* attributes = nullptr;
  bool has_started = false;
};

constexpr std::size_t kStackBytes = std::size_t{64} << 10;
constexpr unsigned kCloseWhenReplaced = 4;  // CLOSE_RANGE_CLOEXEC

// In a process that lives for a moment, so that the program's parent is gone; shares our memory.
int start_and_leave(void* data) {
  auto& start = *static_cast<Start*>(data);
#ifdef SYS_close_range
  ::syscall(SYS_close_range, 3U, ~0U, kCloseWhenReplaced);
#endif
  pid_t number = 0;
  start.has_started = ::posix_spawn(&number, start.program, start.files, start.attributes,
                                    start.words, environ) == 0;
  ::_exit(0);
}

}  // namespace

bool start_detached(const std::vector<std::string>& words) {
  if (words.empty()) return false;
  std::vector<char*> pointers;
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  if (::posix_spawn_file_actions_init(&files) != 0) return false;
  if (::posix_spawnattr_init(&attributes) != 0) {
    ::posix_spawn_file_actions_destroy(&files);
    return false;
  }
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    ::posix_spawn_file_actions_addopen(&files, descriptor, "/dev/null", O_RDWR, 0);
  sigset_t none;
  sigset_t all;
  ::sigemptyset(&none);
  ::sigfillset(&all);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &all);
  ::posix_spawnattr_setflags(&attributes,
                             POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  Start start{pointers[0], pointers.data(), &files, &attributes, false};
  std::vector<std::byte> stack(kStackBytes);
  // Without a signal at its end it is hidden from the program's own wait().
  const int parent =
      ::clone(start_and_leave, stack.data() + stack.size(), CLONE_VM | CLONE_VFORK, &start);
  if (parent > 0) ::waitpid(parent, nullptr, static_cast<int>(__WCLONE));
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&files);
  return parent > 0 && start.has_started;
}

}  // namespace gpumemprof::capture
