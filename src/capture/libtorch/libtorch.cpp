#include "capture/libtorch/libtorch.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <exception>
#include <new>

namespace gpumemprof::capture {
namespace {

constexpr char kAbiVersion[] = "aoti_torch_abi_version";
constexpr char kDeviceCount[] = "_ZN3c104cuda12device_countEv";
constexpr char kPickledSnapshot[] = "_ZN5torch4cuda24_memory_snapshot_pickledB5cxx11Ev";

// std::string as GNU's standard library lays it out since C++11, as the name of the function above
// promises. We may be built with another.
struct GnuString {
  char* data = nullptr;
  std::size_t size = 0;
  std::array<char, 16> inside{};

  ~GnuString() {
    if (data != nullptr && data != inside.data()) ::operator delete(data);
  }
  GnuString() = default;
  GnuString(const GnuString&) = delete;
  GnuString& operator=(const GnuString&) = delete;
};
static_assert(sizeof(GnuString) == 32);

void* symbol_of(const char* library, const char* name) {
  void* handle = ::dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
  return handle == nullptr ? nullptr : ::dlsym(handle, name);
}

}  // namespace

std::optional<TorchVersionNumber> loaded_torch_version() {
  const auto ask = reinterpret_cast<std::uint64_t (*)()>(symbol_of("libtorch_cpu.so", kAbiVersion));
  if (ask == nullptr) return std::nullopt;
  const std::uint64_t version = ask();
  return TorchVersionNumber{static_cast<int>(version >> 56U),
                            static_cast<int>((version >> 48U) & 0xFFU)};
}

int cuda_device_count() {
  const auto count = reinterpret_cast<std::int8_t (*)()>(symbol_of("libc10_cuda.so", kDeviceCount));
  return count == nullptr ? 0 : std::max<int>(count(), 0);
}

Result<std::string> pickled_snapshot() {
  // A function that returns a string is given the place to construct it at.
  const auto take =
      reinterpret_cast<GnuString* (*)(GnuString*)>(symbol_of("libtorch_cuda.so", kPickledSnapshot));
  if (take == nullptr) {
    return Error{ErrorCode::environment,
                 "libtorch has no snapshot of its CUDA memory that can be read", "libtorch_cuda.so",
                 "use libtorch 2.4 or later, built with the C++11 ABI"};
  }
  try {
    GnuString text;
    take(&text);
    return std::string(text.data, text.size);
  } catch (const std::exception& failure) {
    return Error{ErrorCode::environment, std::string("torch's snapshot failed: ") + failure.what(),
                 "", ""};
  }
}

}  // namespace gpumemprof::capture
