// Which device an event belongs to. The recorder and its surroundings write this down in different
// ways; this is the only place that converts between them.
//
//   slot            callbacks, records and tables: the number of the CUDA device, or kCpuSlot
//   device index    labels and what torch lists: the number of the CUDA device, or kHostDevice for
//                   CPU tensors
//   index in file   the number of the CUDA device; a recording of CPU tensors has one device, 0
//   device type     a word for the whole file: "cuda" or "cpu"
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "event/event.h"

namespace gpumemprof::capture {

// What a recording records.
enum class MemoryKind : std::uint8_t { cuda, cpu };

using DeviceSlot = std::uint8_t;
inline constexpr DeviceSlot kCpuSlot = 0x7F;
inline constexpr std::size_t kDeviceSlots = 128;

constexpr bool is_cuda_slot(DeviceSlot slot) { return slot < kCpuSlot; }
constexpr MemoryKind memory_of(DeviceSlot slot) {
  return slot == kCpuSlot ? MemoryKind::cpu : MemoryKind::cuda;
}

// As torch numbers its devices. One byte, without a branch: this runs at every event.
constexpr DeviceSlot torch_slot(std::int8_t device) {
  return static_cast<DeviceSlot>(device) & (kDeviceSlots - 1);
}

// None: there is no CUDA device with this number, or too many for our tables.
constexpr std::optional<DeviceSlot> cuda_slot(DeviceIndex device) {
  if (device < 0 || device >= kCpuSlot) return std::nullopt;
  return static_cast<DeviceSlot>(device);
}
constexpr std::optional<DeviceSlot> slot_of(DeviceIndex device) {
  return device == kHostDevice ? kCpuSlot : cuda_slot(device);
}

constexpr DeviceIndex index_in_file(DeviceSlot slot) {
  return slot == kCpuSlot ? DeviceIndex{0} : static_cast<DeviceIndex>(slot);
}

constexpr std::string_view device_type(MemoryKind memory) {
  return memory == MemoryKind::cpu ? "cpu" : "cuda";
}

}  // namespace gpumemprof::capture
