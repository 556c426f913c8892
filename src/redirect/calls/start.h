// Starting programs: with this library in them, or not at all. Nothing here allocates: it runs
// between fork and exec.
#pragma once

#include "redirect/calls/program.h"
#include "redirect/place.h"

namespace gpumemprof::redirect {

// The environment of a new program: the given one, with the variables that keep it redirected.
class Environment {
 public:
  // How many pointers to provide.
  static size_t slots(char* const* given);
  Environment(char* const* given, char** slots);
  [[nodiscard]] char* const* get() const { return entries_; }

 private:
  void add(std::string_view name, std::string_view value, PathText& text, size_t& count);

  char** entries_;
  PathText texts_[4];
};

// What the kernel is to start for a path: the file itself, or the interpreter of a script of ours.
class Start {
 public:
  // How many pointers to provide.
  static size_t slots(char* const* arguments);
  // 0, or why it may not be started, negated.
  long prepare(int folder_fd, const char* path, LastLink last, char* const* arguments,
               char** slots);
  [[nodiscard]] const char* path() const { return path_.c_str(); }
  [[nodiscard]] char* const* arguments() const { return arguments_; }

 private:
  PathText path_;
  PathText shown_;  // the script's path, for its interpreter
  Script script_;
  char* const* arguments_ = nullptr;
};

long call_execve(int folder_fd, const char* path, char* const* arguments, char* const* environment,
                 LastLink last);

// The same for each folder of PATH, if the name has no slash.
long call_execvpe(const char* name, char* const* arguments, char* const* environment);

// Finds a program in PATH.
long find_program(const char* name, PathText& found);

}  // namespace gpumemprof::redirect
