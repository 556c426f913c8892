#include "base/error.h"

#include <fmt/core.h>

#include "base/printable.h"

namespace gpumemprof {

std::string Error::sentence() const {
  std::string text;
  if (!where.empty()) text += where + ": ";
  text += message;
  if (!hint.empty()) text += "; " + hint;
  // Paths and arguments in it may contain anything.
  return printable(text);
}

void fail_check(const char* condition, const char* file, int line) {
  throw InternalError(fmt::format("internal check failed at {}:{}: {}", file, line, condition));
}

}  // namespace gpumemprof
