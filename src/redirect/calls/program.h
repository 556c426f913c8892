// Whether this library will be loaded into a program, so that it may be started.
#pragma once

#include <string_view>

#include "redirect/path_text.h"

namespace gpumemprof::redirect {

enum class ProgramKind {
  dynamic,  // the loader reads LD_PRELOAD
  script,   // names its interpreter in its first line
  closed,   // static, Go, set-uid, for another machine or C library: would run without us
  other     // nothing that the kernel starts; execvp gives it to the shell
};

struct Script {
  PathText interpreter;
  PathText argument;  // may be empty
};

// `path` is that of the file as the kernel finds it. Fills in `script` for a script.
ProgramKind examine_program(const char* path, Script& script);

// Adds a line to the list of programs that were not started.
void note_refusal(std::string_view path);

}  // namespace gpumemprof::redirect
