// Where CPython keeps what a stack needs: the running frame of a thread, the code of a frame, the
// strings of a code object.
//
// Offsets in bytes. 3.13 and later publish them; 3.9 to 3.12 are known, and fixed within a minor
// version. The recorder compares a raw walk with the interpreter's own answer before it trusts any
// of this.
#pragma once

#include <pthread.h>

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"

namespace gpumemprof::capture {

enum class LineTableFormat : std::uint8_t { lnotab, pep626, locations };

struct PythonLayout {
  int minor = 0;  // of 3.minor
  // Thread state → running frame; via one more pointer in 3.11 and 3.12.
  std::uint16_t thread_frame = 0;
  std::uint16_t cframe_frame = 0;
  bool has_cframe = false;
  // Frames.
  std::uint16_t previous = 0;
  std::uint16_t code = 0;
  std::uint16_t instruction = 0;
  std::uint16_t owner = 0;
  std::uint16_t locals = 0;  // the first one, which is self in a method
  bool has_frame_objects =
      false;  // 3.9, 3.10: the instruction is a number, not a pointer, and there is no owner
  std::uint8_t instruction_unit = 1;
  // Code objects.
  std::uint16_t file = 0;
  std::uint16_t name = 0;
  std::uint16_t first_line = 0;
  std::uint16_t line_table = 0;
  std::uint16_t first_instruction = 0;
  LineTableFormat line_table_format = LineTableFormat::locations;
  // String objects; their state bits are the same in all these versions.
  std::uint16_t ascii_data = 0;
  std::uint16_t compact_data = 0;

  // Both exported by every CPython.
  void* (*this_thread_state)() = nullptr;
  const void* code_type = nullptr;
  // The interpreter's own variables, which from 3.11 on include the state of its first thread:
  // objects in this range stay there until the process ends. Empty: not known.
  std::uintptr_t runtime_begin = 0;
  std::uintptr_t runtime_end = 0;
};

// The layout of the CPython in this process, or why there is none.
Result<PythonLayout> find_python_layout();

// The pthread key under which Python keeps each thread's own state. Every stack walk begins with
// that state, and Python's function that returns it costs more than the rest of the walk. The
// function reads a pthread key, but does not say which. On a new thread that nothing else has used
// yet, the key that holds the state can only be Python's: call it there. None if the thread was
// used by others, or if two keys match.
using AskThreadState = void* (*)();
std::optional<pthread_key_t> find_thread_key(AskThreadState ask);

}  // namespace gpumemprof::capture
