#include "capture/libtorch/driver_cards.h"

#include <dlfcn.h>

#include <array>

namespace gpumemprof::capture {
namespace {

constexpr char kDriver[] = "libcuda.so.1";
constexpr int kSuccess = 0;
constexpr std::size_t kUuidBytes = 16;

struct DriverCalls {
  int (*device_get)(int* device, int index) = nullptr;
  int (*name)(char* name, int size, int device) = nullptr;
  int (*total)(std::size_t* bytes, int device) = nullptr;
  int (*uuid)(std::array<unsigned char, kUuidBytes>* uuid, int device) = nullptr;
};

template <typename Function>
void find_in(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
}

// As NVML names it: "GPU-01234567-89ab-…".
std::string uuid_text(const std::array<unsigned char, kUuidBytes>& uuid) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text = "GPU";
  for (std::size_t byte = 0; byte < uuid.size(); ++byte) {
    if (byte == 0 || byte == 4 || byte == 6 || byte == 8 || byte == 10) text += '-';
    text += kDigits[uuid[byte] >> 4U];
    text += kDigits[uuid[byte] & 0xFU];
  }
  return text;
}

}  // namespace

std::vector<DriverCard> driver_cards(int count) {
  std::vector<DriverCard> cards;
  void* library = ::dlopen(kDriver, RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return cards;
  DriverCalls calls;
  find_in(library, "cuDeviceGet", calls.device_get);
  find_in(library, "cuDeviceGetName", calls.name);
  find_in(library, "cuDeviceTotalMem_v2", calls.total);
  find_in(library, "cuDeviceGetUuid", calls.uuid);
  if (calls.device_get == nullptr || calls.name == nullptr || calls.total == nullptr) return cards;
  for (int index = 0; index < count; ++index) {
    int device = 0;
    std::array<char, 256> name{};
    std::size_t total_bytes = 0;
    if (calls.device_get(&device, index) != kSuccess ||
        calls.name(name.data(), static_cast<int>(name.size()) - 1, device) != kSuccess ||
        calls.total(&total_bytes, device) != kSuccess) {
      continue;
    }
    DriverCard card{static_cast<DeviceIndex>(index), name.data(), total_bytes, ""};
    std::array<unsigned char, kUuidBytes> uuid{};
    if (calls.uuid != nullptr && calls.uuid(&uuid, device) == kSuccess) card.uuid = uuid_text(uuid);
    cards.push_back(std::move(card));
  }
  return cards;
}

}  // namespace gpumemprof::capture
