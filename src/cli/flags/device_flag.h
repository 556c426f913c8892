// `--device`: "cuda:1", "1", "cpu" and "host" all name a device.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "event/event.h"

namespace gpumemprof::cli {

// Nothing for an empty text: every device.
Result<std::optional<DeviceIndex>> parse_device(const std::string& text);

}  // namespace gpumemprof::cli
