// Against stand-ins for torch's libraries that have the same names.
#include "capture/hooks/cuda_report.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "capture/ledger/ledger.h"

namespace gpumemprof::capture {
namespace {

using FakeReport = void (*)(std::uint64_t, std::int64_t, std::uint64_t, std::uint64_t, int);

TEST(CudaReport, hears_what_the_allocator_tells_torch_and_passes_it_on) {
  EXPECT_FALSE(attach_cuda_report().ok());  // nothing is loaded yet
  void* torch = ::dlopen(FAKE_TORCH_FOLDER "/libc10.so", RTLD_NOW | RTLD_GLOBAL);
  void* allocator = ::dlopen(FAKE_TORCH_FOLDER "/libc10_cuda.so", RTLD_LAZY);
  ASSERT_NE(torch, nullptr) << ::dlerror();
  ASSERT_NE(allocator, nullptr) << ::dlerror();
  const auto report = reinterpret_cast<FakeReport>(::dlsym(allocator, "fake_report"));
  const auto* heard = static_cast<std::int64_t*>(::dlsym(torch, "_ZN3c1011heard_bytesE"));
  ASSERT_NE(report, nullptr);
  ASSERT_NE(heard, nullptr);

  ASSERT_TRUE(attach_cuda_report().ok());
  ASSERT_TRUE(attach_cuda_report().ok());
  report(0x1000, 512, 512, 2048, 1);  // this device is not counted
  ASSERT_TRUE(start_counting(1));
  Ledger& ledger = *counting_ledger(1);
  OpenScope scope;
  report(0x2000, 1024, 1536, 2048, 1);
  ledger.open(scope);
  report(0x3000, 4096, 5632, 8192, 1);
  report(0x3000, -4096, 1536, 8192, 1);
  report(0x4000, 4096, 4096, 4096, 2);  // another device
  report(0x4000, 4096, 4096, 4096, -1);
  const ScopeReading reading = *ledger.close(scope);
  stop_counting(1);
  EXPECT_EQ(reading.before.allocated_bytes, 1536U);
  EXPECT_EQ(reading.peak.allocated_bytes, 5632U);
  EXPECT_EQ(reading.peak.reserved_bytes, 8192U);
  EXPECT_EQ(reading.turnover, (Turnover{4096, 4096, 1, 1}));
  EXPECT_EQ(*heard, 512 + 1024 + 4096 - 4096 + 4096 + 4096);
}

}  // namespace
}  // namespace gpumemprof::capture
