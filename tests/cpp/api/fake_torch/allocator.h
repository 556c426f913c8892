// torch's CUDA allocator as far as the recorder sees it: the vtable of its base class, the entries
// that trackers get, and its blocks. Each block has a segment of its own.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

// NOLINTBEGIN(readability-identifier-naming): torch's own names, by which capture looks for them.
#pragma GCC visibility push(default)
namespace c10::CachingDeviceAllocator {

struct TraceEntry {
  std::int32_t action;
  std::int8_t device;
  std::uint64_t address;
  std::uint64_t context[2];
  std::uint64_t stream;
  std::uint64_t size_bytes;
  std::uint64_t pool[2];
  std::uint64_t time;
  std::string texts[2];
};

}  // namespace c10::CachingDeviceAllocator

namespace fake {

using Entry = c10::CachingDeviceAllocator::TraceEntry;
using Track = std::function<void(const Entry&)>;

// As many virtual functions as torch 2.11 has before the one that attaches a tracker.
template <int Count>
struct Slots : Slots<Count - 1> {
  virtual void slot(std::integral_constant<int, Count> /*which*/) {}
};
template <>
struct Slots<0> {};
struct DeviceAllocator : Slots<44> {
  virtual void attachAllocatorTraceTracker(Track track) = 0;
};

struct Block {
  std::uint64_t size_bytes = 0;
  std::uint64_t requested_bytes = 0;
};

struct NativeAllocator final : DeviceAllocator {
  void attachAllocatorTraceTracker(Track track) override;
  void tell(int action, std::uint64_t address, std::uint64_t size_bytes);

  std::recursive_mutex mutex;
  bool is_initialised = false;
  bool is_mapped = false;    // as with expandable segments: cudaMalloc is not called
  bool is_refusing = false;  // as cudaMallocAsync does
  bool is_lying = false;     // lists other sizes than it reports
  std::vector<Track> trackers;
  std::map<std::uint64_t, Block> blocks;
  std::uint64_t next = 0x7f0000000000;
  std::uint64_t allocated_bytes = 0;
};

NativeAllocator& native();

}  // namespace fake

namespace c10::cuda {
std::int8_t device_count() noexcept;
namespace CUDACachingAllocator {
extern std::atomic<void*> allocator;
}
}  // namespace c10::cuda
#pragma GCC visibility pop
// NOLINTEND(readability-identifier-naming)
