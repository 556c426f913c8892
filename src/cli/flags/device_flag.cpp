#include "cli/flags/device_flag.h"

#include <charconv>

namespace gpumemprof::cli {

Result<std::optional<DeviceIndex>> parse_device(const std::string& text) {
  constexpr DeviceIndex kHighest = 1024;
  if (text.empty()) return std::optional<DeviceIndex>();
  if (text == "host") return std::optional<DeviceIndex>(kHostDevice);
  if (text == "cpu") return std::optional<DeviceIndex>(0);
  const std::string number = text.substr(text.find(':') + 1);
  DeviceIndex index = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), index);
  if (error != std::errc() || end != number.data() + number.size() || index < 0 ||
      index > kHighest) {
    return Error{ErrorCode::usage,
                 "--device takes a number or a name such as cuda:0, not '" + text + "'", "",
                 "try --device 0"};
  }
  return std::optional<DeviceIndex>(index);
}

}  // namespace gpumemprof::cli
