#include "event/native_module.h"

#include <algorithm>
#include <array>

namespace gpumemprof {
namespace {

constexpr std::array<std::string_view, 8> kSystemFolders = {
    "/usr/lib/", "/usr/lib64/", "/usr/lib32/", "/usr/local/lib/",
    "/lib/",     "/lib64/",     "/lib32/",     "/usr/local/cuda"};
constexpr std::array<std::string_view, 4> kPackageFolders = {"/torch/lib/", "/libtorch/lib/",
                                                             "/site-packages/", "/dist-packages/"};
constexpr std::array<std::string_view, 14> kLibraryNames = {
    "libtorch", "libc10",    "libstdc++", "libc.so",   "libm.so",       "libgcc_s",   "libgomp",
    "libcuda",  "libcublas", "libcudnn",  "libpython", "libgpumemprof", "linux-vdso", "ld-linux"};

}  // namespace

bool is_library_module(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  const auto begins = [](std::string_view text) {
    return [text](std::string_view beginning) { return text.starts_with(beginning); };
  };
  return std::ranges::any_of(kSystemFolders, begins(path)) ||
         std::ranges::any_of(kLibraryNames, begins(name)) ||
         std::ranges::any_of(kPackageFolders,
                             [&](std::string_view folder) {
                               return path.find(folder) != std::string_view::npos;
                             }) ||
         (name.starts_with("python") && !name.ends_with(".py"));
}

}  // namespace gpumemprof
