#include "report/text/whatif_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "base/bytes.h"
#include "base/printable.h"
#include "report/text/overview/completeness_text.h"
#include "report/text/page.h"
#include "report/text/text_format.h"

namespace gpumemprof {
namespace {

using text::counted;
using text::grouped;

constexpr std::size_t kConfColumns = 24;

class WhatIfWriter : private text::Page {
 public:
  WhatIfWriter(const WhatIf& whatif, const TextStyle& style)
      : Page(style.width, style.has_color), whatif_(whatif), style_(style) {}

  std::string run() {
    line(fmt::format("{}: simulated by the allocator's rules", text::file_name(whatif_.path)));
    for (const std::string& sentence : text::missing_sentences(whatif_.completeness))
      paragraph(sentence, 0);
    for (const DeviceWhatIf& device : whatif_.devices) {
      out_ += "\n";
      winner(device);
      proof(device);
      table(device);
      fragmentation(device.pins.shares);
    }
    next_command();
    return std::move(out_);
  }

 private:
  void proof(const DeviceWhatIf& device) {
    const sim::Verification& verified = device.verified;
    const std::uint64_t wrong =
        verified.address_mismatches + verified.segment_mismatches + verified.counter_mismatches;
    const std::string compared =
        fmt::format("{}, {} and {}", counted(verified.allocations, "allocation"),
                    counted(verified.segment_calls, "segment call"),
                    counted(verified.counters_compared, "counter"));
    if (wrong == 0) {
      paragraph(fmt::format("{}: the simulation matches the recording: {}, no mismatch.",
                            device.name, compared),
                0);
    } else {
      paragraph(
          fmt::format(
              "{}: the simulation differs from the recording in {} of {} placements, {} of {} "
              "segment "
              "calls and {} of {} counters, first at event {}: the figures below are estimates.",
              device.name, grouped(verified.address_mismatches), grouped(verified.allocations),
              grouped(verified.segment_mismatches), grouped(verified.segment_calls),
              grouped(verified.counter_mismatches), grouped(verified.counters_compared),
              grouped(verified.first_mismatch_event)),
          0);
    }
    if (device.first_event > device.lead_in) {
      paragraph(
          fmt::format("The history starts late: simulated from event {} on, the first exact state.",
                      grouped(device.first_event)),
          2);
    }
    paragraph(fmt::format("Rules of torch {}{}; {}.", to_string(device.version),
                          device.is_version_inferred ? " (inferred: they match the recording)" : "",
                          limit(verified)),
              2);
  }

  static std::string limit(const sim::Verification& verified) {
    const std::uint64_t bytes = std::min(verified.limit.allowed_bytes, verified.limit.device_bytes);
    if (bytes == sim::kNoLimit) return "no memory limit";
    const char* how = verified.inferred_limit ? " (inferred from the first failure)" : "";
    return fmt::format("memory limit {}{}", format_bytes(bytes), how);
  }

  void table(const DeviceWhatIf& device) {
    out_ += "\n";
    line(fmt::format("  {} {:>8} {:>7} {:>7} {:>5} {:>5} {:>5} {:>8}",
                     text::left("settings", kConfColumns), "reserved", "change", "unused", "retry",
                     "OOMs", "calls", "fits in"));
    for (const WhatIfRun& run : device.runs) row(device, run);
    out_ += "\n";
    paragraph(
        "Unused: the share that was free when most was reserved. Retry: how often the pool was "
        "emptied to find room. Calls: to the driver. Fits in: the least memory that the run "
        "survives on.",
        2);
    const bool has_oom =
        std::any_of(device.runs.begin(), device.runs.end(),
                    [](const WhatIfRun& run) { return run.result.num_ooms() > 0; });
    if (has_oom) ooms(device);
  }

  void row(const DeviceWhatIf& device, const WhatIfRun& run) {
    const sim::SimulationResult& result = run.result;
    const std::uint64_t recorded = device.runs.front().result.peak_reserved_bytes;
    const double change = recorded == 0 ? 0
                                        : 100.0 *
                                              (static_cast<double>(result.peak_reserved_bytes) -
                                               static_cast<double>(recorded)) /
                                              static_cast<double>(recorded);
    const std::string figures = fmt::format(
        " {:>8} {:>7} {:>7} {:>5} {:>5} {:>5} {:>8}", format_bytes(result.peak_reserved_bytes),
        run.is_recorded ? "" : fmt::format("{:+.1f} %", change),
        fmt::format("{:.1f} %", 100.0 * result.fragmentation_at_peak()),
        grouped(result.counters.num_alloc_retries), grouped(result.num_ooms()),
        grouped(result.counters.num_device_alloc + result.counters.num_device_free),
        run.min_memory_bytes ? format_bytes(*run.min_memory_bytes) : "-");
    const std::string name = name_of(device, run);
    if (name.size() <= kConfColumns) {
      line("  " + text::left(name, kConfColumns) + figures);
    } else {
      line("  " + text::shortened(name, style_.width - 2));
      line("  " + std::string(kConfColumns, ' ') + figures);
    }
  }

  static std::string name_of(const DeviceWhatIf& device, const WhatIfRun& run) {
    std::string name = run.is_recorded          ? "as recorded"
                       : run.alloc_conf.empty() ? "defaults"
                                                : run.alloc_conf;
    const std::uint64_t recorded_limit = device.runs.front().memory_limit_bytes;
    if (run.memory_limit_bytes != recorded_limit && run.memory_limit_bytes != sim::kNoLimit) {
      name += ", limit " + format_bytes(run.memory_limit_bytes);
    }
    return name;
  }

  void ooms(const DeviceWhatIf& device) {
    std::map<std::uint32_t, std::uint64_t> runs_by_event;
    for (const WhatIfRun& run : device.runs) {
      if (run.result.first_oom_event != kNoEvent) ++runs_by_event[run.result.first_oom_event];
    }
    for (const auto& [event, runs] : runs_by_event) {
      paragraph(fmt::format("{} of these simulations {} out of memory, first at event {}.",
                            grouped(runs), runs == 1 ? "runs" : "run", grouped(event)),
                2);
    }
    if (device.runs.front().result.num_ooms() > 0) {
      paragraph(
          "The recorded run itself ran out of memory: what the program would have requested after "
          "that is unknown.",
          2);
    }
  }

  // Why the recorded pool held more than was used at its peak.
  void fragmentation(const FreeShares& shares) {
    if (shares.free_bytes == 0) return;
    paragraph(
        fmt::format(
            "As recorded, {} of the reserved bytes were free when the pool was largest: {} in "
            "gaps between live blocks, {} usable only by other streams, {} in whole free segments.",
            format_bytes(shares.free_bytes), text::percent(shares.pinned_bytes, shares.free_bytes),
            text::percent(shares.other_stream_bytes, shares.free_bytes),
            text::percent(shares.surplus_bytes, shares.free_bytes)),
        2);
  }

  // The setting that reserves least, and the one that survives on least.
  void winner(const DeviceWhatIf& device) {
    if (!device.is_ranked || device.runs.size() < 2) return;
    const WhatIfRun& recorded = device.runs.front();
    const WhatIfRun& best = device.runs[1];
    const std::uint64_t before = recorded.result.peak_reserved_bytes;
    const std::uint64_t bytes = best.result.peak_reserved_bytes;
    const bool survives = best.result.num_ooms() == 0;
    const bool helps = survives && (bytes < before || recorded.result.num_ooms() > 0);
    std::string text;
    if (!survives) {
      text = "with every setting the run still runs out of memory.";
    } else if (helps) {
      text = fmt::format(
          "best with {}, which {} {}{}.", setting(best),
          recorded.result.num_ooms() > 0 ? "does not run out of memory and reserves" : "reserves",
          format_bytes(bytes), bytes < before ? " instead of " + format_bytes(before) : "");
    } else {
      text =
          fmt::format("no setting reserves less than the recorded one, {}.", format_bytes(before));
    }
    text += tightest(device, helps ? best : recorded);
    headline(device.name + ": " + text);
    if (helps && !best.alloc_conf.empty()) {
      line(fmt::format("    export PYTORCH_CUDA_ALLOC_CONF={}", text::quoted(best.alloc_conf)));
    } else if (helps && !device.recorded_conf.empty()) {
      line("    unset PYTORCH_CUDA_ALLOC_CONF");
    }
    out_ += "\n";
  }

  static std::string setting(const WhatIfRun& run) {
    return run.alloc_conf.empty() ? "the defaults" : run.alloc_conf;
  }

  // Under a limit, the pool is emptied before memory runs out: a setting that reserves more may
  // then survive on less.
  static std::string tightest(const DeviceWhatIf& device, const WhatIfRun& chosen) {
    const WhatIfRun* least = &chosen;
    for (const WhatIfRun& run : device.runs) {
      if (run.min_memory_bytes &&
          (!least->min_memory_bytes || *run.min_memory_bytes < *least->min_memory_bytes))
        least = &run;
    }
    if (!least->min_memory_bytes) return "";
    std::string text;
    if (chosen.min_memory_bytes)
      text = fmt::format(" It fits in {}.", format_bytes(*chosen.min_memory_bytes));
    if (least != &chosen)
      text += fmt::format(" Where memory is tighter, use {}: it fits in {}.", setting(*least),
                          format_bytes(*least->min_memory_bytes));
    return text;
  }

  void next_command() {
    const bool is_ranked = !whatif_.devices.empty() && whatif_.devices.front().is_ranked;
    const std::string file = text::quoted(whatif_.path);
    out_ += "\n";
    line(is_ranked ? "Next: what held the memory in the recorded run"
                   : "Next: which settings need the least memory for this run");
    line(fmt::format("  gpumemprof {} {}{}", is_ranked ? "report" : "simulate", file,
                     is_ranked ? "" : " --search"));
  }

  const WhatIf& whatif_;
  const TextStyle& style_;
};

}  // namespace

std::string whatif_text(const WhatIf& whatif, const TextStyle& style) {
  return printable_page(WhatIfWriter(whatif, style).run(), style.has_color);
}

}  // namespace gpumemprof
