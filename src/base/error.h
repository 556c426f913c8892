// Errors are sentences: what failed, where, and what to do next.
//
// A user's mistake or a bad input file is an Error carried by Result<T>; our own bug is an
// InternalError thrown by GMP_CHECK and caught only at the edges (session, bindings, cli, capture).
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>

namespace gpumemprof {

enum class ErrorCode : std::uint8_t {
  limit_exceeded,  // a limit the user set was exceeded
  usage,           // the call itself was wrong
  bad_input,       // a file that cannot be read as what it claims to be
  environment,     // the machine is missing something
  bug,             // our own
};

// The exit code every command uses for a class of errors.
constexpr int exit_code(ErrorCode code) {
  switch (code) {
    case ErrorCode::limit_exceeded:
      return 1;
    case ErrorCode::usage:
      return 2;
    case ErrorCode::bad_input:
      return 3;
    case ErrorCode::environment:
      return 4;
    case ErrorCode::bug:
      break;
  }
  return 70;
}

struct Error {
  ErrorCode code = ErrorCode::bug;
  std::string message;  // what failed, without a final full stop
  std::string where;    // file, and byte or event where known; may be empty
  std::string hint;     // what to do next; may be empty

  // "where: message; hint"
  [[nodiscard]] std::string sentence() const;
};

class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

[[noreturn]] void fail_check(const char* condition, const char* file, int line);

}  // namespace gpumemprof

// Always on: a broken invariant must never turn into a wrong figure.
#define GMP_CHECK(condition)                                         \
  do {                                                               \
    if (!(condition)) [[unlikely]]                                   \
      ::gpumemprof::fail_check(#condition, __FILE_NAME__, __LINE__); \
  } while (false)
