// Stands in for libc10_cuda.so.
#include <stdexcept>

#include "allocator.h"
#include "capture/ticks.h"

extern "C" int cudaMalloc(void** memory, std::size_t bytes);

// NOLINTBEGIN(readability-identifier-naming)
namespace c10 {

enum class DeviceType : std::int8_t { CPU = 0, CUDA = 1 };
struct Device {
  DeviceType type;
  std::int8_t index;
};
void reportMemoryUsageToProfiler(void*, std::int64_t, std::size_t, std::size_t, Device);

namespace cuda {
namespace CUDACachingAllocator {
std::atomic<void*> allocator{&fake::native()};
}
std::int8_t device_count() noexcept { return 1; }
}  // namespace cuda

}  // namespace c10
// NOLINTEND(readability-identifier-naming)

namespace fake {

NativeAllocator& native() {
  static NativeAllocator allocator;
  return allocator;
}

// Like torch: without devices there is nobody to keep it.
void NativeAllocator::attachAllocatorTraceTracker(Track track) {
  if (is_refusing) throw std::runtime_error("not supported");
  const std::lock_guard lock(mutex);
  if (is_initialised) trackers.push_back(std::move(track));
}

void NativeAllocator::tell(int action, std::uint64_t address, std::uint64_t size_bytes) {
  const Entry entry{action, 0, address, {}, 0, size_bytes, {}, gpumemprof::capture::read_ticks(),
                    {}};
  for (const Track& track : trackers) track(entry);
}

}  // namespace fake

#pragma GCC visibility push(default)
extern "C" {

void fake_initialise(bool is_initialised) { fake::native().is_initialised = is_initialised; }
void fake_map(bool is_mapped) { fake::native().is_mapped = is_mapped; }
void fake_refuse(bool is_refusing) { fake::native().is_refusing = is_refusing; }
void fake_lie(bool is_lying) { fake::native().is_lying = is_lying; }

// Large enough that torch would not split a segment for it.
std::uint64_t fake_allocate(std::uint64_t requested_bytes) {
  constexpr std::uint64_t kUnit = 2 << 20;
  fake::NativeAllocator& all = fake::native();
  const std::lock_guard lock(all.mutex);
  all.is_initialised = true;
  const std::uint64_t bytes = (requested_bytes + kUnit - 1) / kUnit * kUnit;
  void* memory = nullptr;
  if (!all.is_mapped && cudaMalloc(&memory, bytes) != 0) {
    all.tell(8, 0, bytes);
    return 0;
  }
  const std::uint64_t address = all.next;
  all.next += bytes;
  all.tell(3, address, bytes);
  all.tell(0, address, requested_bytes);
  all.blocks[address] = {bytes, requested_bytes};
  all.allocated_bytes += bytes;
  c10::reportMemoryUsageToProfiler(nullptr, static_cast<std::int64_t>(bytes), all.allocated_bytes,
                                   all.allocated_bytes, {c10::DeviceType::CUDA, 0});
  return address;
}

void fake_free(std::uint64_t address) {
  fake::NativeAllocator& all = fake::native();
  const std::lock_guard lock(all.mutex);
  const fake::Block block = all.blocks[address];
  all.tell(1, address, block.requested_bytes);
  all.tell(2, address, block.requested_bytes);
  all.tell(4, address, block.size_bytes);
  all.blocks.erase(address);
  all.allocated_bytes -= block.size_bytes;
}
}
#pragma GCC visibility pop
