#include "capture/card.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <mutex>

namespace gpumemprof::capture {
namespace {

// NVML's own layouts.
struct MemoryInfo {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};
struct MemoryInfoV2 {
  unsigned version;
  unsigned long long total;
  unsigned long long reserved;  // by the firmware; not in `used` here, but in version 1's
  unsigned long long free;
  unsigned long long used;
};
constexpr unsigned kMemoryInfoV2 = sizeof(MemoryInfoV2) | (2U << 24);
struct ProcessInfo {
  unsigned pid;
  unsigned long long used_bytes;
  unsigned gpu_instance;
  unsigned compute_instance;
};
constexpr int kSuccess = 0;

struct Nvml {
  int (*init)() = nullptr;
  int (*by_uuid)(const char*, void**) = nullptr;
  int (*memory)(void*, MemoryInfo*) = nullptr;
  int (*memory_v2)(void*, MemoryInfoV2*) = nullptr;
  int (*processes)(void*, unsigned*, ProcessInfo*) = nullptr;
};
Nvml g_nvml;

template <typename Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
}

void ask_memory(void* handle, DeviceSample& sample) {
  MemoryInfoV2 info{};
  info.version = kMemoryInfoV2;
  if (g_nvml.memory_v2 != nullptr && g_nvml.memory_v2(handle, &info) == kSuccess) {
    sample.total_bytes = info.total;
    sample.used_bytes = info.used;
    return;
  }
  MemoryInfo old{};
  if (g_nvml.memory != nullptr && g_nvml.memory(handle, &old) == kSuccess) {
    sample.total_bytes = old.total;
    sample.used_bytes = old.used;
  }
}

void ask_process(void* handle, DeviceSample& sample) {
  constexpr unsigned long long kNotAvailable = ~0ULL;
  std::array<ProcessInfo, 128> infos;
  auto count = static_cast<unsigned>(infos.size());
  if (g_nvml.processes == nullptr || g_nvml.processes(handle, &count, infos.data()) != kSuccess)
    return;
  const auto end = infos.begin() + std::min<std::ptrdiff_t>(count, std::ssize(infos));
  const auto mine = std::find_if(infos.begin(), end, [](const ProcessInfo& info) {
    return info.pid == static_cast<unsigned>(::getpid());
  });
  // In a container NVML may count processes by numbers we do not know.
  if (mine != end && mine->used_bytes != kNotAvailable) sample.process_bytes = mine->used_bytes;
}

}  // namespace

bool Cards::open() {
  // The library's functions are everyone's.
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (was_opened_) return is_open_;
  was_opened_ = true;
  void* library = ::dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) return false;
  find(library, "nvmlInit_v2", g_nvml.init);
  find(library, "nvmlDeviceGetHandleByUUID", g_nvml.by_uuid);
  find(library, "nvmlDeviceGetMemoryInfo", g_nvml.memory);
  find(library, "nvmlDeviceGetMemoryInfo_v2", g_nvml.memory_v2);
  find(library, "nvmlDeviceGetComputeRunningProcesses_v3", g_nvml.processes);
  is_open_ = g_nvml.init != nullptr && g_nvml.by_uuid != nullptr && g_nvml.init() == kSuccess;
  return is_open_;
}

void Cards::watch(DeviceIndex device, const std::string& uuid) {
  const auto is_same = [&](const Card& card) { return card.device == device; };
  if (!open() || std::any_of(cards_.begin(), cards_.end(), is_same)) return;
  void* handle = nullptr;
  if (g_nvml.by_uuid(uuid.c_str(), &handle) == kSuccess) cards_.push_back({device, handle});
}

std::vector<DeviceSample> Cards::sample() const {
  std::vector<DeviceSample> samples;
  for (const Card& card : cards_) {
    DeviceSample sample;
    sample.device = card.device;
    ask_memory(card.handle, sample);
    ask_process(card.handle, sample);
    samples.push_back(sample);
  }
  return samples;
}

}  // namespace gpumemprof::capture
