// Result<T>: a value or an Error. Never both, never neither.
#pragma once

#include <utility>
#include <variant>

#include "base/error.h"

namespace gpumemprof {

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  [[nodiscard]] bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & {
    GMP_CHECK(ok());
    return *std::get_if<0>(&state_);
  }
  const T& value() const& {
    GMP_CHECK(ok());
    return *std::get_if<0>(&state_);
  }
  T&& value() && {
    GMP_CHECK(ok());
    return std::move(*std::get_if<0>(&state_));
  }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  [[nodiscard]] const Error& error() const {
    GMP_CHECK(!ok());
    return *std::get_if<1>(&state_);
  }

 private:
  std::variant<T, Error> state_;
};

// The value of an operation that only succeeds or fails.
struct Done {};
using Status = Result<Done>;

}  // namespace gpumemprof
