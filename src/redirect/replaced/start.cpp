// Starting programs.
#include "redirect/calls/start.h"

#include <alloca.h>
#include <spawn.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>

#include "redirect/calls/calls.h"
#include "redirect/kernel.h"
#include "redirect/place.h"
#include "redirect/replaced/replaced.h"
#include "redirect/scratch.h"

using namespace gpumemprof::redirect;  // NOLINT(google-build-using-namespace): ours are C functions

namespace {

int run(const char* path, char* const* arguments, char* const* environment) {
  return static_cast<int>(
      finish(call_execve(AT_FDCWD, path, arguments, environment, LastLink::follow)));
}

// execl(path, first, ..., nullptr): how many there are before the null.
size_t count_arguments(va_list& rest) {
  size_t count = 1;
  while (va_arg(rest, char*) != nullptr) {
    ++count;
  }
  return count;
}

void fill_arguments(char** arguments, const char* first, size_t count, va_list& rest) {
  arguments[0] = const_cast<char*>(first);
  for (size_t at = 1; at <= count; ++at) {
    arguments[at] = va_arg(rest, char*);
  }
}

// For the C library's own functions that start a shell with the process's environment.
void keep_environment() {
  if (!scratch().is_active()) {
    return;
  }
  auto** slots = static_cast<char**>(alloca(Environment::slots(environ) * sizeof(char*)));
  const Environment whole(environ, slots);
  for (char* const* entry = whole.get(); *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos) {
      continue;
    }
    const PathText name(part_of(text, 0, equals));
    const char* now = std::getenv(name.c_str());
    if (now == nullptr || part_of(text, equals + 1) != now) {
      setenv(name.c_str(), *entry + equals + 1, 1);
    }
  }
}

using Spawn = int(pid_t*, const char*, const posix_spawn_file_actions_t*, const posix_spawnattr_t*,
                  char* const*, char* const*);

int spawn(Spawn* real, pid_t* pid, const char* path, const posix_spawn_file_actions_t* actions,
          const posix_spawnattr_t* attributes, char* const* arguments, char* const* environment) {
  Start start;
  auto** argument_slots = static_cast<char**>(alloca(Start::slots(arguments) * sizeof(char*)));
  if (const long error = start.prepare(AT_FDCWD, path, LastLink::follow, arguments, argument_slots);
      error < 0) {
    return static_cast<int>(-error);
  }
  auto** slots = static_cast<char**>(alloca(Environment::slots(environment) * sizeof(char*)));
  const Environment whole(environment, slots);
  return real(pid, start.path(), actions, attributes, start.arguments(), whole.get());
}

}  // namespace

GPUMEMPROF_REPLACE(int, execve,
                   (const char* path, char* const* arguments, char* const* environment)) {
  return run(path, arguments, environment);
}
GPUMEMPROF_REPLACE(int, execv, (const char* path, char* const* arguments)) {
  return run(path, arguments, environ);
}
GPUMEMPROF_REPLACE(int, execvp, (const char* name, char* const* arguments)) {
  return static_cast<int>(finish(call_execvpe(name, arguments, environ)));
}
GPUMEMPROF_REPLACE(int, execvpe,
                   (const char* name, char* const* arguments, char* const* environment)) {
  return static_cast<int>(finish(call_execvpe(name, arguments, environment)));
}
GPUMEMPROF_REPLACE(int, execveat,
                   (int folder_fd, const char* path, char* const* arguments,
                    char* const* environment, int flags)) {
  PathText link;
  if (path[0] == '\0' && (flags & AT_EMPTY_PATH) != 0) {
    descriptor_link(folder_fd, link);
    path = link.c_str();
  }
  const LastLink last = (flags & AT_SYMLINK_NOFOLLOW) != 0 ? LastLink::keep : LastLink::follow;
  return static_cast<int>(finish(call_execve(folder_fd, path, arguments, environment, last)));
}
GPUMEMPROF_REPLACE(int, fexecve, (int fd, char* const* arguments, char* const* environment)) {
  PathText link;
  descriptor_link(fd, link);
  return run(link.c_str(), arguments, environment);
}

GPUMEMPROF_REPLACE(int, execl, (const char* path, const char* first, ...)) {
  va_list rest;
  va_start(rest, first);
  va_list again;
  va_copy(again, rest);
  const size_t count = count_arguments(again);
  va_end(again);
  auto** arguments = static_cast<char**>(alloca((count + 1) * sizeof(char*)));
  fill_arguments(arguments, first, count, rest);
  va_end(rest);
  return run(path, arguments, environ);
}
GPUMEMPROF_REPLACE(int, execlp, (const char* name, const char* first, ...)) {
  va_list rest;
  va_start(rest, first);
  va_list again;
  va_copy(again, rest);
  const size_t count = count_arguments(again);
  va_end(again);
  auto** arguments = static_cast<char**>(alloca((count + 1) * sizeof(char*)));
  fill_arguments(arguments, first, count, rest);
  va_end(rest);
  return static_cast<int>(finish(call_execvpe(name, arguments, environ)));
}
GPUMEMPROF_REPLACE(int, execle, (const char* path, const char* first, ...)) {
  va_list rest;
  va_start(rest, first);
  va_list again;
  va_copy(again, rest);
  const size_t count = count_arguments(again);
  va_end(again);
  auto** arguments = static_cast<char**>(alloca((count + 1) * sizeof(char*)));
  fill_arguments(arguments, first, count, rest);
  auto* const* environment = va_arg(rest, char* const*);
  va_end(rest);
  return run(path, arguments, environment);
}

GPUMEMPROF_REPLACE(int, posix_spawn,
                   (pid_t * pid, const char* path, const posix_spawn_file_actions_t* actions,
                    const posix_spawnattr_t* attributes, char* const* arguments,
                    char* const* environment)) {
  Spawn* real = GPUMEMPROF_NEXT(Spawn, posix_spawn);
  if (!scratch().is_active()) {
    return real(pid, path, actions, attributes, arguments, environment);
  }
  return spawn(real, pid, path, actions, attributes, arguments, environment);
}
GPUMEMPROF_REPLACE(int, posix_spawnp,
                   (pid_t * pid, const char* name, const posix_spawn_file_actions_t* actions,
                    const posix_spawnattr_t* attributes, char* const* arguments,
                    char* const* environment)) {
  if (!scratch().is_active()) {
    return GPUMEMPROF_NEXT(Spawn, posix_spawnp)(pid, name, actions, attributes, arguments,
                                                environment);
  }
  PathText found(name);
  if (std::strchr(name, '/') == nullptr) {
    if (const long error = find_program(name, found); error < 0) {
      return static_cast<int>(-error);
    }
  }
  return spawn(GPUMEMPROF_NEXT(Spawn, posix_spawn), pid, found.data(), actions, attributes,
               arguments, environment);
}

// The C library opens these itself in the child: they are prepared here, and opened where they are.
GPUMEMPROF_REPLACE(int, posix_spawn_file_actions_addopen,
                   (posix_spawn_file_actions_t * actions, int fd, const char* path, int flags,
                    mode_t mode)) {
  using Type = int(posix_spawn_file_actions_t*, int, const char*, int, mode_t);
  auto* real = GPUMEMPROF_NEXT(Type, posix_spawn_file_actions_addopen);
  if (!scratch().is_active()) {
    return real(actions, fd, path, flags, mode);
  }
  const Descriptor prepared(call_open(AT_FDCWD, path, flags | O_CLOEXEC, mode));
  PathText backing;
  if (!prepared.is_open() || backing_of(AT_FDCWD, path, LastLink::follow, backing) < 0) {
    return real(actions, fd, path, O_RDONLY | (flags & O_CLOEXEC), 0);
  }
  return real(actions, fd, backing.c_str(), flags & ~O_EXCL, mode);
}
GPUMEMPROF_REPLACE(int, posix_spawn_file_actions_addchdir_np,
                   (posix_spawn_file_actions_t * actions, const char* path)) {
  using Type = int(posix_spawn_file_actions_t*, const char*);
  auto* real = GPUMEMPROF_NEXT(Type, posix_spawn_file_actions_addchdir_np);
  PathText backing;
  if (scratch().is_active() && backing_of(AT_FDCWD, path, LastLink::follow, backing) == 0) {
    return real(actions, backing.c_str());
  }
  return real(actions, path);
}

GPUMEMPROF_REPLACE(int, system, (const char* command)) {
  using Type = int(const char*);
  keep_environment();
  return GPUMEMPROF_NEXT(Type, system)(command);
}
GPUMEMPROF_REPLACE(FILE*, popen, (const char* command, const char* mode)) {
  using Type = FILE*(const char*, const char*);
  keep_environment();
  return GPUMEMPROF_NEXT(Type, popen)(command, mode);
}
