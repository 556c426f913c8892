// Stands in for libtorch_cpu.so, which says its version: 2.11, unless told otherwise.
#include <cstdint>

#pragma GCC visibility push(default)
extern "C" {
std::uint64_t fake_minor = 11;  // NOLINT
std::uint64_t aoti_torch_abi_version() { return (std::uint64_t{2} << 56U) | (fake_minor << 48U); }
}
#pragma GCC visibility pop
