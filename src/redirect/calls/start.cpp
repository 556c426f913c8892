#include "redirect/calls/start.h"

#include <alloca.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "redirect/calls/calls.h"
#include "redirect/kernel.h"
#include "redirect/scratch.h"

namespace gpumemprof::redirect {
namespace {

constexpr std::string_view kPreload = "LD_PRELOAD";
constexpr std::string_view kFolder = "GPUMEMPROF_REDIRECT";
constexpr std::string_view kReal = "GPUMEMPROF_REDIRECT_REAL";
constexpr std::string_view kLetsStatic = "GPUMEMPROF_REDIRECT_LETS_STATIC";

size_t count_of(char* const* list) {
  size_t count = 0;
  while (list != nullptr && list[count] != nullptr) {
    ++count;
  }
  return count;
}

bool is_variable(std::string_view entry, std::string_view name) {
  return entry.size() > name.size() && entry[name.size()] == '=' &&
         part_of(entry, 0, name.size()) == name;
}

// Programs without a loader that are known: ldconfig prints what libraries there are, for
// ctypes.util.find_library() and compilers; the loader itself, which ldd calls, reads LD_PRELOAD.
bool is_harmless(std::string_view path, char* const* arguments) {
  const std::string_view name = part_of(path, path.rfind('/') + 1);
  return is_below(part_of(name, 0, 8), "ld-linux") ||
         (name == "ldconfig" && count_of(arguments) == 2 && std::string_view(arguments[1]) == "-p");
}

}  // namespace

size_t Environment::slots(char* const* given) { return count_of(given) + 5; }

Environment::Environment(char* const* given, char** slots) : entries_(slots) {
  const Scratch& shared = scratch();
  size_t count = 0;
  std::string_view preloads;
  for (size_t at = 0, size = count_of(given); at < size; ++at) {
    const std::string_view entry = given[at];
    if (is_variable(entry, kPreload)) {
      preloads = part_of(entry, kPreload.size() + 1);
    } else if (!is_variable(entry, kFolder) && !is_variable(entry, kReal) &&
               !is_variable(entry, kLetsStatic)) {
      entries_[count++] = given[at];
    }
  }
  PathText& preload = texts_[0];
  preload.assign(kPreload);
  preload.append("=");
  const bool has_ours = preloads.find(shared.library()) != std::string_view::npos;
  if (!has_ours) {
    preload.append(shared.library());
  }
  if (!preloads.empty()) {
    preload.append(has_ours ? "" : ":");
    preload.append(preloads);
  }
  entries_[count++] = preload.data();
  add(kFolder, shared.folder(), texts_[1], count);
  if (!shared.real_prefixes().empty()) {
    add(kReal, shared.real_prefixes(), texts_[2], count);
  }
  if (shared.lets_static_run()) {
    add(kLetsStatic, "1", texts_[3], count);
  }
  entries_[count] = nullptr;
}

void Environment::add(std::string_view name, std::string_view value, PathText& text,
                      size_t& count) {
  text.assign(name);
  text.append("=");
  text.append(value);
  entries_[count++] = text.data();
}

size_t Start::slots(char* const* arguments) { return count_of(arguments) + 4; }

long Start::prepare(int folder_fd, const char* path, LastLink last, char* const* arguments,
                    char** slots) {
  Place place;
  if (const long error = resolve(folder_fd, path, last, place); error < 0) {
    return error;
  }
  // What has no path, such as a program in memory, is found through its descriptor.
  const bool is_real_only = place.is_real_only;
  if (!is_real_only && !place.exists()) {
    return place.error != 0 ? place.error : -ENOENT;
  }
  if (place.is_folder()) {
    return -EACCES;
  }
  path_ = is_real_only ? place.path : place.backing;
  arguments_ = arguments;
  const ProgramKind kind = examine_program(path_.c_str(), script_);
  if (kind == ProgramKind::closed && !scratch().lets_static_run() &&
      !is_harmless(place.path.view(), arguments)) {
    note_refusal(place.path.c_str());
    return -EACCES;
  }
  if (kind != ProgramKind::script) {
    return 0;
  }
  const bool is_ours = place.path.view() != path_.view();
  if (is_ours) {
    if (const long error = kernel(SYS_faccessat, AT_FDCWD, path_.c_str(), X_OK); error < 0) {
      return error;
    }
  }
  Place interpreter;
  if (const long error =
          resolve(AT_FDCWD, script_.interpreter.c_str(), LastLink::follow, interpreter);
      error < 0) {
    return error;
  }
  if (!interpreter.exists()) {
    return -ENOENT;
  }
  Script nested;
  if (examine_program(interpreter.backing.c_str(), nested) == ProgramKind::closed &&
      !scratch().lets_static_run()) {
    note_refusal(interpreter.path.c_str());
    return -EACCES;
  }
  if (!is_ours) {
    return 0;
  }
  // The interpreter reads the script by the path that the program knows.
  path_ = interpreter.backing;
  shown_.assign(path);
  size_t count = 0;
  slots[count++] = script_.interpreter.data();
  if (script_.argument.size() != 0) {
    slots[count++] = script_.argument.data();
  }
  slots[count++] = shown_.data();
  for (size_t at = 1, size = count_of(arguments); at < size; ++at) {
    slots[count++] = arguments[at];
  }
  slots[count] = nullptr;
  arguments_ = slots;
  return 0;
}

long call_execve(int folder_fd, const char* path, char* const* arguments, char* const* environment,
                 LastLink last) {
  if (!scratch().is_active()) {
    return kernel(SYS_execveat, folder_fd, path, arguments, environment,
                  last == LastLink::keep ? AT_SYMLINK_NOFOLLOW : 0);
  }
  Start start;
  auto** argument_slots = static_cast<char**>(alloca(Start::slots(arguments) * sizeof(char*)));
  if (const long error = start.prepare(folder_fd, path, last, arguments, argument_slots);
      error < 0) {
    return error;
  }
  auto** slots = static_cast<char**>(alloca(Environment::slots(environment) * sizeof(char*)));
  const Environment whole(environment, slots);
  return kernel(SYS_execve, start.path(), start.arguments(), whole.get());
}

long find_program(const char* name, PathText& found) {
  const char* variable = std::getenv("PATH");
  std::string_view folders = variable != nullptr ? variable : "/bin:/usr/bin";
  long error = -ENOENT;
  while (true) {
    const size_t colon = folders.find(':');
    found.assign(part_of(folders, 0, colon));
    if (found.size() != 0) {
      found.append("/");
    }
    found.append(name);
    struct stat status{};
    const long result = call_stat(AT_FDCWD, found.data(), &status, 0);
    if (result == 0 && S_ISREG(status.st_mode)) {
      if (call_access(AT_FDCWD, found.data(), X_OK, AT_EACCESS) == 0) {
        return 0;
      }
      error = -EACCES;
    } else if (result == -EACCES) {
      error = -EACCES;
    }
    if (colon == std::string_view::npos) {
      return error;
    }
    folders.remove_prefix(colon + 1);
  }
}

long call_execvpe(const char* name, char* const* arguments, char* const* environment) {
  PathText found;
  const char* path = name;
  if (std::strchr(name, '/') == nullptr) {
    if (const long error = name[0] == '\0' ? -ENOENT : find_program(name, found); error < 0) {
      return error;
    }
    path = found.data();
  }
  const long error = call_execve(AT_FDCWD, path, arguments, environment, LastLink::follow);
  if (error != -ENOEXEC) {
    return error;
  }
  // A script without a first line that names its interpreter.
  const size_t count = count_of(arguments);
  auto** shell = static_cast<char**>(alloca((count + 3) * sizeof(char*)));
  char shell_name[] = "/bin/sh";
  PathText script(path);
  shell[0] = shell_name;
  shell[1] = script.data();
  for (size_t at = 1; at <= count; ++at) {
    shell[at + 1] = arguments[at];
  }
  if (count == 0) {
    shell[2] = nullptr;
  }
  return call_execve(AT_FDCWD, shell_name, shell, environment, LastLink::follow);
}

}  // namespace gpumemprof::redirect
