// Documents for the caller to free.
#pragma once

#include <cstdlib>
#include <new>
#include <string>

#include "api/answer.h"
#include "base/result.h"

namespace gpumemprof::api {

// `make` returns a Result<std::string>.
template <typename Make>
char* json_text(gpumemprof_error** error, const Make& make) noexcept {
  return guarded<char*>(nullptr, error, [&]() -> char* {
    const Result<std::string> text = make();
    if (!text) {
      report(error, text.error());
      return nullptr;
    }
    // From malloc, so that the caller needs nothing of C++ to free it.
    void* copy = std::malloc(text.value().size() + 1);
    if (copy == nullptr) throw std::bad_alloc();
    std::memcpy(copy, text.value().c_str(), text.value().size() + 1);
    return static_cast<char*>(copy);
  });
}

}  // namespace gpumemprof::api
