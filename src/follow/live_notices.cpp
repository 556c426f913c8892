#include "follow/live_notices.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/bytes.h"

namespace gpumemprof {
namespace {

using Severity = LiveNotice::Severity;

std::string times(std::uint64_t count) {
  return count == 1 ? "once" : fmt::format("{} times", count);
}

std::string place(const LiveSite& site) {
  if (site.file.empty()) return "memory without a stack";
  return fmt::format("{}{}:{}", site.is_backward ? "the backward of " : "", site.file, site.line);
}

void add_device(const LiveDevice& device, std::vector<LiveNotice>& notices) {
  const auto add = [&](Severity severity, const char* kind, std::string text) {
    notices.push_back({severity, kind, device.name, std::move(text)});
  };
  if (device.ooms > 0)
    add(Severity::failure, "out_of_memory", "ran out of memory " + times(device.ooms));
  // Every out-of-memory error has one retry before it.
  if (device.retries.value_or(0) > device.ooms) {
    add(Severity::warning, "retries",
        "the pool was full and was emptied " + times(*device.retries) + ", which is slow");
  } else if (!device.retries) {
    add(Severity::warning, "retries",
        fmt::format("the pool was emptied {} before it took more: it was full, or the program "
                    "called empty_cache()",
                    times(device.unclear_retries)));
  }
  for (const LiveSite& site : device.sites) {
    if (!site.growth_bytes_per_step) continue;
    add(Severity::warning, "growth",
        fmt::format("{} keeps growing: {} per step, on average of the last steps", place(site),
                    format_bytes(static_cast<std::uint64_t>(*site.growth_bytes_per_step))));
  }
  if (device.lost_events > 0) {
    add(Severity::warning, "lost_events",
        fmt::format("{} events were lost: figures after that are not exact", device.lost_events));
  }
}

}  // namespace

std::vector<LiveNotice> find_notices(const LiveReport& report) {
  std::vector<LiveNotice> notices;
  if (report.ending && !report.ending->problem.empty()) {
    notices.push_back({Severity::failure, "recording_stopped", "",
                       "the recording stopped early: " + report.ending->problem});
  }
  for (const LiveDevice& device : report.devices) add_device(device, notices);
  std::stable_sort(notices.begin(), notices.end(), [](const LiveNotice& a, const LiveNotice& b) {
    return a.severity > b.severity;
  });
  return notices;
}

}  // namespace gpumemprof
