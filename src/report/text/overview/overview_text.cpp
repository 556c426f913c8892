#include "report/text/overview/overview_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "base/bytes.h"
#include "base/printable.h"
#include "event/foreign/foreign_file.h"
#include "report/text/heading/heading_text.h"
#include "report/text/heading/verdict_text.h"
#include "report/text/modules_text.h"
#include "report/text/overview/card_usage_text.h"
#include "report/text/overview/free_memory_text.h"
#include "report/text/overview/growth_text.h"
#include "report/text/overview/live_text.h"
#include "report/text/overview/oom_text.h"
#include "report/text/overview/sources_text.h"
#include "report/text/overview/tags_text.h"
#include "report/text/page.h"
#include "report/text/steps_text.h"
#include "report/text/text_format.h"

namespace gpumemprof {
namespace {

using text::counted;
using text::grouped;

class OverviewWriter : private text::Page {
 public:
  OverviewWriter(const Overview& overview, const Store& store, const TextStyle& style)
      : Page(style.width, style.has_color), overview_(overview), store_(store), style_(style) {}

  std::string run() {
    heading();
    for (const DeviceOverview& device : overview_.devices) {
      out_ += "\n";
      if (is_idle(device)) {
        line(device.name + ": no allocation or free was recorded.");
        exactness(device);
        continue;
      }
      if (!device.replay.has_history) {
        end_only(device);
      } else {
        verdict(device);
        leaks(device);
      }
      sources(device);
      out_ += "\n" + text::live_table(device, store_, asked_name(device), style_);
      out_ += text::tag_tables(device.tags, store_, asked_name(device), style_);
      if (has_pool())
        out_ += "\n" + text::free_memory_section(device, store_, asked_name(device), style_);
      if (device.card_usage) out_ += "\n" + text::card_usage_table(*device.card_usage);
      rest(device);
    }
    settings();
    next_command();
    return std::move(out_);
  }

 private:
  // Only its marks are known, such as steps of the optimizer: what it held, nobody recorded.
  static bool is_idle(const DeviceOverview& device) {
    return device.replay.has_history && device.events == 0 &&
           device.replay.peak.allocated_bytes == 0 && device.replay.peak_reserved_bytes == 0;
  }

  void heading() { out_ += text::heading_text(overview_, store_, style_.width); }

  [[nodiscard]] bool is_predicted() const { return store_.origin().kind == kPredictedRun; }

  [[nodiscard]] std::string moment(const When& when, std::uint64_t events) const {
    return text::when_text(when, events, store_);
  }

  void verdict(const DeviceOverview& device) {
    const DeviceReplay& replay = device.replay;
    if (replay.counters.ooms > 0) out_of_memory(device);
    line(bold(text::peak_headline(device, has_pool())));
    late_start(device);
    paragraph(moment(device.peak_when, device.events), 2);
    if (const std::string sentence = text::source_sentence(device, store_); !sentence.empty())
      paragraph(sentence, 2);
    if (const std::string sentence = text::growth_verdict(device.growth, device.leaks, store_);
        !sentence.empty())
      paragraph(sentence, 2);
    exactness(device);
  }

  // CPU tensors that are older than the recording are not known; a model with gradients has
  // parameters.
  void late_start(const DeviceOverview& device) {
    const auto most = [&](MemorySource source) {
      return device.sources.figures[static_cast<std::size_t>(source)].bytes_max;
    };
    if (has_pool() || most(MemorySource::gradients) == 0) return;
    if (most(MemorySource::parameters) > 0) return;
    if (device.sources.has_labels) {
      paragraph(
          "The model is older than the recording, and CPU tensors from before it are not known: "
          "its parameters are missing here, and the true peak is higher. Begin to record before "
          "the model is made.",
          2);
    } else if (device.sources.has_stacks) {  // without labels, sources are inferred
      paragraph(
          "There are gradients, but no parameters: the model seems to be older than the recording, "
          "and CPU tensors from before it are not known. The true peak is then higher. Begin to "
          "record before the model is made.",
          2);
    }
  }

  void leaks(const DeviceOverview& device) {
    constexpr std::size_t kIndent = 2;
    const std::vector<std::string> lines =
        text::leaking_lines(device.leaks, store_, style_.width - kIndent);
    if (lines.empty()) return;
    line("\n  Memory that grows, by line of your code");
    for (const std::string& text : lines) line(std::string(kIndent, ' ') + text);
    line("  What to change: gpumemprof leaks " + text::quoted(command_path()));
  }

  void out_of_memory(const DeviceOverview& device) {
    const std::uint64_t ooms = device.replay.counters.ooms;
    for (std::size_t index = 0; index < device.ooms.size(); ++index) {
      const OomReport& oom = device.ooms[index];
      if (index == 0)
        line(red(text::wrapped(text::failure_headline(device, store_), style_.width, 2)));
      if (ooms > 1) paragraph(text::one_failure(device, index, store_), 2);
      if (const std::string details = text::oom_details(oom); !details.empty())
        paragraph(details, 2);
      paragraph(text::oom_facts(oom), 2);
      paragraph(dim(moment(device.oom_whens[index], device.events)), 2);
      const text::OomRemedy remedy = text::oom_remedy(oom, store_, command_path());
      if (!remedy.sentence.empty()) paragraph(remedy.sentence, 2);
      if (!remedy.command.empty()) line("    " + remedy.command);
    }
    out_ += "\n";
  }

  void exactness(const DeviceOverview& device) {
    const DeviceReplay& replay = device.replay;
    // Where events were lost, the first lines have already said how that affects the figures.
    if (replay.exact_from_event == 0U || !overview_.completeness.lost_periods.empty()) return;
    if (replay.exact_from_event) {
      paragraph(fmt::format("The history starts late: {} {} live before it. Figures are exact from "
                            "event {} on; before that the sizes of some blocks are inferred.",
                            counted(replay.blocks_from_before, "block"),
                            replay.blocks_from_before == 1 ? "was" : "were",
                            grouped(*replay.exact_from_event)),
                2);
    } else if (!replay.has_end) {
      paragraph(
          "The file is truncated, so the figures could not be checked against the allocator's "
          "final state: "
          "they assume that the history starts with an empty pool.",
          2);
    } else {
      paragraph(inexact(replay), 2);
    }
  }

  static std::string inexact(const DeviceReplay& replay) {
    if (replay.contradictions == 0)
      return "The history has gaps, or does not lead to the recorded final state: figures are "
             "inferred.";
    return fmt::format(
        "{} did not match the state before {} (events are missing, or settings changed during the "
        "run): figures before the end are inferred.",
        counted(replay.contradictions, "event"), replay.contradictions == 1 ? "it" : "them");
  }

  void end_only(const DeviceOverview& device) {
    const EndState& end = device.replay.end;
    if (store_.origin().kind == kProfileOfJax) {
      line(bold(fmt::format("{}: {} allocated when the profile was taken", device.name,
                            format_bytes(end.totals.allocated_bytes))));
      return;
    }
    line(bold(fmt::format("{}: {} allocated, {} reserved when the snapshot was taken", device.name,
                          format_bytes(end.totals.allocated_bytes),
                          format_bytes(end.totals.reserved_bytes))));
    paragraph(store_.origin().cut
                  ? "The file ends before its history, so the peak is unknown."
                  : "No history was recorded, so the peak is unknown. Call "
                    "torch.cuda.memory._record_memory_history() before the run to record it.",
              2);
  }

  [[nodiscard]] static std::string asked_name(const DeviceOverview& device) {
    return text::asked_text(device);
  }

  void sources(const DeviceOverview& device) {
    out_ += "\n" + text::source_table(device, asked_name(device), has_pool(),
                                      is_predicted() ? "predicted" : "measured", style_);
    if (style_.shows_modules) out_ += "\n" + text::module_tree(device, store_, style_);
    if (style_.shows_steps) out_ += "\n" + text::step_table(device.sources, style_);
  }

  // CPU tensors come straight from the C library: nothing is reserved beyond what is allocated.
  [[nodiscard]] bool has_pool() const { return store_.facts().has_pool(); }

  void rest(const DeviceOverview& device) {
    const DeviceReplay& replay = device.replay;
    if (!replay.has_history) return;
    out_ += "\n";
    const EndState& end = replay.end;
    if (!has_pool()) {
      paragraph(fmt::format("End: {} allocated. {}, {}.", format_bytes(end.totals.allocated_bytes),
                            counted(replay.counters.allocations, "allocation"),
                            counted(replay.counters.frees, "free")),
                2);
      return;
    }
    paragraph(
        fmt::format(
            "{}: {} allocated, {} reserved in {}.", replay.has_end ? "End" : "Last known state",
            format_bytes(end.totals.allocated_bytes), format_bytes(end.totals.reserved_bytes),
            end.mapped_runs == 0 ? counted(end.segments, "segment")
                                 : counted(end.segments + end.mapped_runs, "segment or mapped run",
                                           "segments or mapped runs")),
        2);
    const EventCounters& counters = replay.counters;
    std::string text =
        fmt::format("{}, {}; {} from the driver, {} returned.",
                    counted(counters.allocations, "allocation"), counted(counters.frees, "free"),
                    counted(counters.segment_allocs + counters.segment_maps, "segment"),
                    grouped(counters.segment_frees + counters.segment_unmaps));
    const std::uint64_t retries = counters.alloc_retries.value_or(0);
    if (retries > 0) {
      text += fmt::format(
          " {}{}: the pool was flushed to make room.",
          retries == 1 ? std::string("1 retry") : fmt::format("{} retries", grouped(retries)),
          counters.are_retries_counted ? "" : " (inferred)");
    }
    paragraph(text, 2);
  }

  void settings() {
    const AllocatorSettings& settings = store_.settings();
    std::string conf;
    for (const auto& [key, value] : store_.origin().settings) {
      if (key.ends_with("ALLOC_CONF")) conf = value;
    }
    if (!store_.origin().settings.empty()) {
      const std::string plain =
          settings == AllocatorSettings() ? "the defaults" : "not the defaults";
      paragraph(fmt::format("Allocator settings: {}.", conf.empty() ? plain : conf), 2);
    }
  }

  // The demo's file is at a path that nobody would type.
  [[nodiscard]] std::string command_path() const {
    return style_.command.empty() ? overview_.path : "FILE";
  }

  // After a failure: what makes the run fit into what was available.
  [[nodiscard]] std::string fitting_command() const {
    if (!style_.command.empty()) return "";
    for (const DeviceOverview& device : overview_.devices) {
      for (const OomReport& oom : device.ooms) {
        if (!oom.is_need_known) continue;
        if (const auto command = text::fit_command(oom, overview_.path)) return *command;
      }
    }
    return "";
  }

  [[nodiscard]] bool has_run_out() const {
    return std::ranges::any_of(overview_.devices, [](const DeviceOverview& device) {
      return std::ranges::any_of(device.ooms, [](const OomReport& oom) {
        return oom.cause != OomCause::larger_than_card;
      });
    });
  }

  // What a model or a pool takes can be changed.
  [[nodiscard]] bool has_remedies(const DeviceSources& sources) const {
    return store_.facts().has_pool() ||
           std::ranges::any_of(sources.phases, [](const PhaseFigures& phase) {
             return phase.phase == Phase::forward || phase.phase == Phase::backward;
           });
  }

  // The command that helps in this situation.
  void next_command() {
    const auto& devices = overview_.devices;
    if (devices.empty()) return;
    const bool is_demo = !style_.command.empty();
    const std::string file = text::quoted(overview_.path);
    const std::string command = is_demo ? style_.command : "gpumemprof report " + file;
    const auto holds_at_end = [](const DeviceOverview& device) {
      return device.replay.end.totals.allocated_bytes > 0;
    };
    const bool asked_peak = devices[0].asked.kind == AskedMoment::Kind::peak;
    if (const std::string fit = fitting_command(); !fit.empty()) {
      next("what would make it fit", fit);
    } else if (!is_demo && has_run_out()) {
      next("a lower bound of the peak with each remedy", "gpumemprof advise " + file);
    } else if (asked_peak && std::ranges::any_of(devices, holds_at_end)) {
      next("what is still live at the end", command + " --at end");
    } else if (asked_peak && !is_demo && has_remedies(devices[0].sources)) {
      next("what each remedy would save", "gpumemprof advise " + file);
    } else {
      next("every stack and figure, for a script", command + " --json");
    }
  }

  void next(std::string_view what, const std::string& command) {
    line(fmt::format("\nNext: {}\n  {}", what, command));
  }

  const Overview& overview_;
  const Store& store_;
  const TextStyle& style_;
};

}  // namespace

std::string overview_text(const Overview& overview, const Store& store, const TextStyle& style) {
  return printable_page(OverviewWriter(overview, store, style).run(), style.has_color);
}

}  // namespace gpumemprof
