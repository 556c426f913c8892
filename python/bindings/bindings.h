// The module gpumemprof._core: conversion between Python and the session façade, without logic of
// its own.
//
// The GIL is released wherever a file is read, replayed or explained.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "session/long_recording.h"
#include "session/recording.h"

namespace gpumemprof::bindings {

namespace nb = nanobind;

// A recording as Python holds it.
struct RecordingHandle {
  std::shared_ptr<const Recording> recording;
};

// One that is too long to be held in memory.
struct LongHandle {
  std::shared_ptr<LongRecording> recording;
};

// Text that came from a file or a path and need not be valid UTF-8.
nb::str to_str(std::string_view text);

// As Python's id() gives it.
inline std::uintptr_t address_of(nb::handle object) {
  return reinterpret_cast<std::uintptr_t>(object.ptr());
}

// Raises the gpumemprof exception class that matches the code.
[[noreturn]] void raise(const Error& error);

template <typename T>
T value_or_raise(Result<T>&& result) {
  if (!result) raise(result.error());
  return std::move(result).value();
}

void bind_errors(nb::module_& module);
void bind_labels(nb::module_& module);
void bind_leaks(nb::module_& module);
void bind_places(nb::module_& module);
void bind_steps(nb::module_& module);
void bind_recording(nb::module_& module);
void bind_report(nb::module_& module);
void bind_tables(nb::module_& module);
void bind_whatif(nb::module_& module);
void bind_advice(nb::module_& module);
void bind_cli(nb::module_& module);
void bind_capture(nb::module_& module);
void bind_counting(nb::module_& module);
void bind_estimate(nb::module_& module);
void bind_failure(nb::module_& module);
void bind_follow(nb::module_& module);
void bind_frames(nb::module_& module);

}  // namespace gpumemprof::bindings
