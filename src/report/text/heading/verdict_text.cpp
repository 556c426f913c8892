#include "report/text/heading/verdict_text.h"

#include <fmt/core.h>

#include "base/bytes.h"
#include "report/text/overview/oom_text.h"
#include "report/text/text_format.h"

namespace gpumemprof::text {

std::string failure_headline(const DeviceOverview& device, const Store& store) {
  const std::uint64_t ooms = device.replay.counters.ooms;
  if (ooms == 0 || device.ooms.empty()) return {};
  if (ooms > 1) return fmt::format("{} ran out of memory {} times.", device.name, grouped(ooms));
  return fmt::format("{} ran out of memory: {}.", device.name,
                     oom_verdict(device.ooms.front(), store));
}

std::string one_failure(const DeviceOverview& device, std::size_t index, const Store& store) {
  return fmt::format("{}: {}.", index + 1, oom_verdict(device.ooms[index], store));
}

std::string peak_headline(const DeviceOverview& device, bool has_pool) {
  std::string text = fmt::format("{}: peak {} allocated", device.name,
                                 format_bytes(device.replay.peak.allocated_bytes));
  if (has_pool)
    text += fmt::format(", {} reserved", format_bytes(device.replay.peak_reserved_bytes));
  return text;
}

}  // namespace gpumemprof::text
