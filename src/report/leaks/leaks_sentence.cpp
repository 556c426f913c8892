#include "report/leaks/leaks_sentence.h"

#include <fmt/core.h>

#include <cmath>

#include "base/bytes.h"
#include "report/text/place.h"
#include "report/text/text_format.h"

namespace gpumemprof::text {
namespace {

std::string per_step(double bytes, const DeviceLeaks& device) {
  return fmt::format("{} a {}", format_bytes(static_cast<std::uint64_t>(std::llround(bytes))),
                     repetition_name(device.repetition));
}

std::string compared(const DeviceLeaks& device, const Store& store) {
  const std::string name(repetition_name(device.repetition));
  std::string text = counted(device.steps, name, name + "s");
  if (!device.repeated_line.is_none()) text += " of " + place(store, device.repeated_line);
  return text;
}

std::string steps_left(const DeviceLeaks& device) {
  if (!device.steps_to_oom) return {};
  const StepsLeft& left = *device.steps_to_oom;
  return fmt::format(" Out of memory in about {} more {}s ({} to {}, predicted, with {}).",
                     grouped(static_cast<std::uint64_t>(std::llround(left.steps))),
                     repetition_name(device.repetition),
                     grouped(static_cast<std::uint64_t>(std::llround(left.low))),
                     grouped(static_cast<std::uint64_t>(std::llround(left.high))),
                     format_bytes(left.limit_bytes));
}

}  // namespace

std::string leak_verdict_sentence(const DeviceLeaks& device, const Store& store) {
  const std::string name(repetition_name(device.repetition));
  switch (device.verdict) {
    case LeakVerdict::too_short:
      if (device.steps == 0)
        return "no verdict: neither steps nor repeated calls of a model were found. Mark steps "
               "with gpumemprof.step().";
      return fmt::format("no verdict: {} {} too few; 8 or more are needed.",
                         compared(device, store), device.steps == 1 ? "is" : "are");
    case LeakVerdict::clean:
      return fmt::format("no leak in {}.", compared(device, store));
    case LeakVerdict::warm_up:
      return fmt::format("no leak in {}: memory grew by {} after the first ones, and stopped.",
                         compared(device, store), format_bytes(device.stopped_bytes));
    case LeakVerdict::fragmentation:
      return fmt::format(
          "fragmentation: the pool grows by {}, while the program's own memory does not grow as "
          "much.",
          per_step(device.reserved_bytes_per_step, device));
    case LeakVerdict::outside_pool:
      return fmt::format(
          "memory outside of PyTorch's pool grows by {}: no tensor holds it (communicators, "
          "graphs, "
          "libraries, other code).",
          per_step(device.outside_bytes_per_step, device));
    case LeakVerdict::cycles:
      return fmt::format(
          "no leak: reference cycles hold the memory of {} until Python's garbage collector runs.",
          counted(device.leaks.size(), "line"));
    case LeakVerdict::leak:
      break;
  }
  std::string where;
  if (!device.line.is_none()) where = ", allocated under " + place(store, device.line);
  return fmt::format("leak: memory grows by {}{}. Later {}s do not free it.{}",
                     per_step(device.bytes_per_step, device), where, name, steps_left(device));
}

}  // namespace gpumemprof::text
