// Stands in for libc10.so: what torch's own profiler receives.
#include <cstddef>
#include <cstdint>

// NOLINTBEGIN(readability-identifier-naming): torch's own names, by which capture looks for them.
namespace c10 {

enum class DeviceType : std::int8_t { CPU = 0, CUDA = 1 };
struct Device {
  DeviceType type;
  std::int8_t index;
};

__attribute__((visibility("default"))) std::int64_t heard_bytes = 0;

__attribute__((visibility("default"))) void reportMemoryUsageToProfiler(void* /*pointer*/,
                                                                        std::int64_t change,
                                                                        std::size_t /*allocated*/,
                                                                        std::size_t /*reserved*/,
                                                                        Device /*device*/) {
  heard_bytes += change;
}

}  // namespace c10
// NOLINTEND(readability-identifier-naming)
