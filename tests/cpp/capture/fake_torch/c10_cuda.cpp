// Stands in for libc10_cuda.so: an allocator that reports its blocks as torch's does.
#include <cstddef>
#include <cstdint>

// NOLINTBEGIN(readability-identifier-naming): torch's own names, by which capture looks for them.
namespace c10 {

enum class DeviceType : std::int8_t { CPU = 0, CUDA = 1 };
struct Device {
  DeviceType type;
  std::int8_t index;
};
void reportMemoryUsageToProfiler(void*, std::int64_t, std::size_t, std::size_t, Device);

}  // namespace c10
// NOLINTEND(readability-identifier-naming)

extern "C" __attribute__((visibility("default"))) void fake_report(std::uint64_t address,
                                                                   std::int64_t change,
                                                                   std::uint64_t allocated,
                                                                   std::uint64_t reserved,
                                                                   int device) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): there is no memory at this address.
  c10::reportMemoryUsageToProfiler(reinterpret_cast<void*>(address), change, allocated, reserved,
                                   {c10::DeviceType::CUDA, static_cast<std::int8_t>(device)});
}
