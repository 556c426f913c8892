// What holds for every input; a promise that is broken ends the process.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "base/result.h"
#include "base/utf8.h"

namespace gpumemprof::fuzz {

// Not assert(): checked in every build.
inline void promise(bool kept, const char* what) {
  if (kept) return;
  std::fprintf(stderr, "broken promise: %s\n", what);
  std::abort();
}

inline void promise_sentence(const Error& error) {
  promise(!error.message.empty(), "an error has a message");
  promise(error.code != ErrorCode::bug, "no file causes an internal error");
}

inline void promise_json(const std::string& text) {
  promise(nlohmann::json::accept(text), "JSON is JSON");
  promise(is_valid_utf8(text), "JSON is UTF-8");
}

inline void promise_answer(const Result<std::string>& answer) {
  if (!answer) return promise_sentence(answer.error());
  promise_json(answer.value());
}

}  // namespace gpumemprof::fuzz
