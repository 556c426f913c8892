#include "capture/ledger/card.h"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <string_view>
#include <system_error>

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
  unsigned long long reserved;  // by the firmware; part of `used` in version 1, but not here
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

void query_memory(void* handle, DeviceSample& sample) {
  MemoryInfoV2 info{};
  info.version = kMemoryInfoV2;
  if (g_nvml.memory_v2 != nullptr && g_nvml.memory_v2(handle, &info) == kSuccess) {
    sample.total_bytes = info.total;
    sample.used_bytes = info.used;
    sample.firmware_bytes = info.reserved;
    return;
  }
  MemoryInfo old{};
  if (g_nvml.memory != nullptr && g_nvml.memory(handle, &old) == kSuccess) {
    sample.total_bytes = old.total;
    sample.used_bytes = old.used;
  }
}

void query_process(void* handle, DeviceSample& sample) {
  constexpr unsigned long long kNotAvailable = ~0ULL;
  std::array<ProcessInfo, 128> infos;
  auto count = static_cast<unsigned>(infos.size());
  if (g_nvml.processes == nullptr || g_nvml.processes(handle, &count, infos.data()) != kSuccess)
    return;
  const auto end = infos.begin() + std::min<std::ptrdiff_t>(count, std::ssize(infos));
  const auto mine = std::find_if(infos.begin(), end, [](const ProcessInfo& info) {
    return info.pid == static_cast<unsigned>(::getpid());
  });
  // In a container NVML may report process ids from another namespace; then we cannot tell which
  // process is which.
  if (mine == end) return;
  if (mine->used_bytes != kNotAvailable) sample.process_bytes = mine->used_bytes;
  std::uint64_t others = 0;
  for (auto info = infos.begin(); info != end; ++info) {
    if (info == mine) continue;
    if (info->used_bytes == kNotAvailable) return;
    others += info->used_bytes;
  }
  sample.other_processes_bytes = others;
}

// Libraries that are loaded on first use: torch's linear algebra library brings in cuSOLVER, and
// cuDNN loads its kernels in parts.
int look_at_library(dl_phdr_info* info, std::size_t /*size*/, void* data) {
  auto& libraries = *static_cast<std::uint8_t*>(data);
  const std::string_view path(info->dlpi_name == nullptr ? "" : info->dlpi_name);
  const std::string_view name = path.substr(path.rfind('/') + 1);
  if (name.starts_with("libcudnn_")) libraries |= DeviceSample::kCudnn;
  if (name.starts_with("libcusolver") || name.starts_with("libtorch_cuda_linalg"))
    libraries |= DeviceSample::kCusolver;
  return 0;
}

// NCCL is loaded from the start; a communicator can be recognised by the threads it starts.
bool has_nccl_threads() {
  std::error_code failure;
  for (std::filesystem::directory_iterator task("/proc/self/task", failure), end;
       !failure && task != end; task.increment(failure)) {
    std::ifstream file(task->path() / "comm");
    std::string name;
    if (std::getline(file, name) && name.starts_with("NCCL")) return true;
  }
  return false;
}

}  // namespace

std::uint8_t libraries_in_use() {
  std::uint8_t libraries = 0;
  ::dl_iterate_phdr(look_at_library, &libraries);
  if (has_nccl_threads()) libraries |= DeviceSample::kNccl;
  return libraries;
}

bool Cards::open() {
  // NVML's functions are shared by the whole process.
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
  const std::uint8_t libraries = cards_.empty() ? std::uint8_t{0} : libraries_in_use();
  for (const Card& card : cards_) {
    DeviceSample sample;
    sample.libraries = libraries;
    sample.device = card.device;
    query_memory(card.handle, sample);
    query_process(card.handle, sample);
    samples.push_back(sample);
  }
  return samples;
}

}  // namespace gpumemprof::capture
