#include "capture/native/native_stacks.h"

#include <dlfcn.h>

#include <cstdlib>

#include "capture/native/loaded_modules.h"

namespace gpumemprof::capture {
namespace {

AddressRange own_code() {
  return code_of_module_at(reinterpret_cast<std::uintptr_t>(&check_native_stacks));
}

// Python's own code, whether it is a library or the program itself.
AddressRange interpreter_code() {
  const void* function = ::dlsym(RTLD_DEFAULT, "PyEval_EvalCode");
  if (function == nullptr) return {};
  return code_of_module_at(reinterpret_cast<std::uintptr_t>(function));
}

}  // namespace

Status check_native_stacks() {
  if (NativeWalker::kIsPossible) return Done{};
  return Error{ErrorCode::environment, "native stacks are recorded on x86-64 only", "",
               "everything else is recorded"};
}

NativeWalker* native_walker(bool has_python) {
  if (!NativeWalker::kIsPossible) return nullptr;
  static NativeWalker* const kWalker = new NativeWalker(own_code());
  if (std::getenv("GPUMEMPROF_CHECK_STACKS") != nullptr)
    kWalker->check_each(NativeWalker::Checks::fatal);
  if (has_python) kWalker->set_interpreter(interpreter_code());
  return kWalker;
}

}  // namespace gpumemprof::capture
