#include "capture/device_slot.h"

#include <gtest/gtest.h>

namespace gpumemprof::capture {
namespace {

TEST(DeviceSlot, cpu_memory_has_a_slot_that_no_cuda_device_has) {
  EXPECT_EQ(slot_of(kHostDevice), kCpuSlot);
  EXPECT_EQ(cuda_slot(kHostDevice), std::nullopt);
  EXPECT_EQ(cuda_slot(kCpuSlot), std::nullopt);
  EXPECT_FALSE(is_cuda_slot(kCpuSlot));
  EXPECT_EQ(memory_of(kCpuSlot), MemoryKind::cpu);
  EXPECT_EQ(index_in_file(kCpuSlot), 0);
}

TEST(DeviceSlot, a_cuda_device_keeps_its_number) {
  for (const int device : {0, 1, kCpuSlot - 1}) {
    const std::optional<DeviceSlot> slot = slot_of(static_cast<DeviceIndex>(device));
    ASSERT_TRUE(slot);
    EXPECT_EQ(torch_slot(static_cast<std::int8_t>(device)), *slot);
    EXPECT_EQ(memory_of(*slot), MemoryKind::cuda);
    EXPECT_EQ(index_in_file(*slot), device);
  }
}

TEST(DeviceSlot, a_number_out_of_range_has_no_slot) {
  EXPECT_EQ(slot_of(-2), std::nullopt);
  EXPECT_EQ(slot_of(static_cast<DeviceIndex>(kDeviceSlots)), std::nullopt);
}

}  // namespace
}  // namespace gpumemprof::capture
