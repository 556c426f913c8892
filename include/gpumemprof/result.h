// Result<T>: a value or an Error. Nothing in these headers throws, exits or prints.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "gpumemprof/gpumemprof.h"

namespace gpumemprof {

struct Error {
  int kind = GPUMEMPROF_BUG;  // a gpumemprof_error_code; also the exit code of the command line
  std::string message;        // what failed
  std::string where;          // may be empty
  std::string hint;           // what to do next; may be empty
  std::string sentence;       // all three
};

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}
  Result(Error error) : error_(std::move(error)) {}

  bool ok() const { return value_.has_value(); }
  explicit operator bool() const { return ok(); }

  // Only where ok().
  T& value() & { return *value_; }
  const T& value() const& { return *value_; }
  T&& value() && { return std::move(*value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }

  // Empty where ok().
  const Error& error() const { return error_; }

 private:
  std::optional<T> value_;
  Error error_;
};

namespace detail {

// Takes an error of the C interface over.
inline Error taken(gpumemprof_error* error) {
  if (error == nullptr)
    return {GPUMEMPROF_ENVIRONMENT, "not enough memory", "", "", "not enough memory"};
  Error result{gpumemprof_error_kind(error), gpumemprof_error_message(error),
               gpumemprof_error_where(error), gpumemprof_error_hint(error),
               gpumemprof_error_sentence(error)};
  gpumemprof_error_free(error);
  return result;
}

}  // namespace detail
}  // namespace gpumemprof
