#include "follow/live_notices.h"

#include <algorithm>

#include "base/bytes.h"

namespace gpumemprof {
namespace {

// Bytes per step: less would take a million steps to matter.
constexpr double kLeastGrowth = 1024;

using Severity = LiveNotice::Severity;

std::string times(std::uint64_t count) {
  return count == 1 ? "once" : std::to_string(count) + " times";
}

std::string place(const LiveSite& site) {
  if (site.file.empty()) return "memory without a stack";
  return (site.is_backward ? "the backward of " : "") + site.file + ":" + std::to_string(site.line);
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
        "the pool was emptied " + times(device.unclear_retries) +
            " before it took more: it was full, or the program called empty_cache()");
  }
  for (const LiveSite& site : device.sites) {
    if (site.growth_bytes_per_step.value_or(0) < kLeastGrowth) continue;
    add(Severity::warning, "growth",
        place(site) + " keeps growing: " +
            format_bytes(static_cast<std::uint64_t>(*site.growth_bytes_per_step)) +
            " per step, on average of the last steps");
  }
  if (device.lost_events > 0) {
    add(Severity::warning, "lost_events",
        std::to_string(device.lost_events) + " events were lost: figures after that are not exact");
  }
}

}  // namespace

std::vector<LiveNotice> find_notices(const LiveReport& report) {
  std::vector<LiveNotice> notices;
  if (report.ending && !report.ending->problem.empty()) {
    notices.push_back({Severity::failure, "recording_stopped", "",
                       "the recording stopped early: " + report.ending->problem});
  }
  for (const std::string& alert : report.alerts)
    notices.push_back({Severity::warning, "alert", "", "alert: " + alert});
  for (const LiveDevice& device : report.devices) add_device(device, notices);
  std::stable_sort(notices.begin(), notices.end(), [](const LiveNotice& a, const LiveNotice& b) {
    return a.severity > b.severity;
  });
  return notices;
}

}  // namespace gpumemprof
