#include "capture/hooks/cuda_report.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdint>
#include <mutex>

#include "capture/device_slot.h"
#include "capture/hooks/call_table.h"
#include "capture/ledger/ledger.h"

namespace gpumemprof::capture {
namespace {

constexpr char kCaller[] = "libc10_cuda.so";
constexpr char kOwner[] = "libc10.so";
constexpr char kReport[] = "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE";
constexpr std::int8_t kCudaType = 1;  // c10::DeviceType::CUDA

// c10::Device, which is passed by value.
struct TorchDevice {
  std::int8_t type;
  std::int8_t index;
};
using Report = void (*)(void*, std::int64_t, std::size_t, std::size_t, TorchDevice);
Report g_report = nullptr;
std::atomic<void (*)()> g_report_listener{nullptr};

void on_report(void* memory, std::int64_t change_bytes, std::size_t allocated_bytes,
               std::size_t reserved_bytes, TorchDevice device) {
  const auto slot = static_cast<DeviceSlot>(device.index);
  if (device.type == kCudaType && is_cuda_slot(slot)) {
    if (Ledger* ledger = counting_ledger(slot); ledger != nullptr) {
      ledger->on_report(reinterpret_cast<std::uint64_t>(memory), change_bytes, allocated_bytes,
                        reserved_bytes);
    }
  }
  if (void (*listener)() = g_report_listener.load(std::memory_order_acquire); listener != nullptr)
    listener();
  g_report(memory, change_bytes, allocated_bytes, reserved_bytes, device);
}

}  // namespace

Status attach_cuda_report() {
  static std::mutex mutex;
  static bool is_attached = false;
  const std::lock_guard lock(mutex);
  if (is_attached) return Done{};
  void* owner = ::dlopen(kOwner, RTLD_LAZY | RTLD_NOLOAD);
  g_report = owner == nullptr ? nullptr : reinterpret_cast<Report>(::dlsym(owner, kReport));
  if (g_report == nullptr ||
      redirect_calls(kCaller, kReport, reinterpret_cast<void*>(on_report)) == 0) {
    return Error{ErrorCode::environment,
                 "this version of torch does not report its totals with every block", kCaller, ""};
  }
  is_attached = true;
  return Done{};
}

void set_report_listener(void (*listener)()) {
  g_report_listener.store(listener, std::memory_order_release);
}

}  // namespace gpumemprof::capture
