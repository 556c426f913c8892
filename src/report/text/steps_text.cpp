#include "report/text/steps_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "report/text/overview/sources_text.h"
#include "report/text/text_format.h"

namespace gpumemprof::text {
namespace {

constexpr std::size_t kNumberColumns = 9;
constexpr std::size_t kMostRuns = 12;  // more are cut in the middle
constexpr std::size_t kFirstRuns = 5;
constexpr std::size_t kLastRuns = 3;

// Consecutive steps that look the same: steps[first] to steps[last].
struct StepRun {
  std::size_t first = 0;
  std::size_t last = 0;
  std::string rows;  // of one of its steps, without its number
};

class StepTable {
 public:
  StepTable(const DeviceSources& sources, const TextStyle& style)
      : sources_(sources), width_(style.width) {}

  std::string run() {
    // "kept": activations at the end of a forward, which its backward needs.
    std::string out =
        fmt::format("  {} {} {} {} {}  {}\n", left("step", kNumberColumns), left("phase", 14),
                    right("peak", 9), right("at end", 9), right("kept", 9), "most of the peak");
    const std::vector<StepRun> runs = find_runs();
    const std::size_t largest = run_of_largest(runs);
    std::size_t skipped_from = runs.size();
    for (std::size_t index = 0; index < runs.size(); ++index) {
      const bool is_shown = runs.size() <= kMostRuns || index < kFirstRuns ||
                            index + kLastRuns >= runs.size() || index == largest;
      if (!is_shown) {
        skipped_from = std::min(skipped_from, index);
        continue;
      }
      if (skipped_from < index) out += skipped(runs, skipped_from, index);
      skipped_from = runs.size();
      out += rows_of(runs[index]);
    }
    return out + largest_step();
  }

 private:
  [[nodiscard]] std::vector<StepRun> find_runs() const {
    std::vector<StepRun> runs;
    for (std::size_t index = 0; index < sources_.steps.size(); ++index) {
      std::string rows = phase_rows(sources_.steps[index]);
      // What came before the first step is not a step.
      const bool joins =
          !runs.empty() && runs.back().rows == rows && sources_.steps[runs.back().first].step != 0;
      if (joins) {
        runs.back().last = index;
      } else {
        runs.push_back({index, index, std::move(rows)});
      }
    }
    return runs;
  }

  [[nodiscard]] std::size_t run_of_largest(const std::vector<StepRun>& runs) const {
    const auto step = std::ranges::max_element(sources_.steps, {}, &StepFigures::peak_bytes);
    const auto index = static_cast<std::size_t>(step - sources_.steps.begin());
    const auto run =
        std::ranges::find_if(runs, [&](const StepRun& one) { return index <= one.last; });
    return static_cast<std::size_t>(run - runs.begin());
  }

  // Each phase of a step on a line, all but the first column.
  [[nodiscard]] std::string phase_rows(const StepFigures& step) const {
    std::string rows;
    for (std::uint32_t row = 0; row < step.phase_count; ++row) {
      const PhaseFigures& phase = sources_.phases[step.first_phase + row];
      std::string name(phase_name(phase.phase));
      std::replace(name.begin(), name.end(), '_', ' ');
      const auto most =
          std::max_element(phase.at_peak.by_source.begin(), phase.at_peak.by_source.end());
      const auto source = static_cast<MemorySource>(most - phase.at_peak.by_source.begin());
      const std::string kept =
          phase.saved_for_backward_bytes ? format_bytes(*phase.saved_for_backward_bytes) : "";
      rows += fmt::format(
          " {} {} {} {}  {}\n", left(name, 14), right(format_bytes(phase.peak_bytes), 9),
          right(format_bytes(phase.live_bytes), 9), right(kept, 9),
          phase.at_peak.allocated() == 0 ? "" : memory_source_info(source).display_name);
    }
    return rows;
  }

  std::string rows_of(const StepRun& run) {
    const auto [known, is_new] = first_with_rows_.try_emplace(run.rows, run.first);
    std::string out;
    if (!is_new) return one_line(run, "as step " + number(known->second));
    std::size_t from = 0;
    while (from < run.rows.size()) {
      const std::size_t end = run.rows.find('\n', from);
      const std::string name = from == 0 ? number(run.first) : "";
      out += shortened(
          fmt::format("  {}{}", left(name, kNumberColumns), run.rows.substr(from, end - from)),
          width_);
      out += '\n';
      from = end + 1;
    }
    if (run.last > run.first) out += one_line({run.first + 1, run.last, ""}, "the same");
    return out;
  }

  [[nodiscard]] std::string one_line(const StepRun& run, const std::string& what) const {
    const std::string numbers = run.first == run.last
                                    ? number(run.first)
                                    : fmt::format("{} to {}", number(run.first), number(run.last));
    return fmt::format("  {} {}, peak {}{}\n", left(numbers, kNumberColumns), what,
                       format_bytes(sources_.steps[run.first].peak_bytes),
                       run.first == run.last ? "" : " each");
  }

  [[nodiscard]] std::string largest_step() const {
    const auto step = std::ranges::max_element(sources_.steps, {}, &StepFigures::peak_bytes);
    const std::uint32_t last = sources_.steps.back().step;
    if (last < 2) return "";
    const std::string which =
        step->step == 0 ? "before step 1"
                        : fmt::format("step {} of {}", grouped(step->step), grouped(last));
    return fmt::format("  Largest: {}, peak {}.\n", which, format_bytes(step->peak_bytes));
  }

  // Runs [from, to) on one line.
  [[nodiscard]] std::string skipped(const std::vector<StepRun>& runs, std::size_t from,
                                    std::size_t to) const {
    const std::size_t first = runs[from].first;
    const std::size_t last = runs[to - 1].last;
    const auto steps = std::span(sources_.steps).subspan(first, last - first + 1);
    StepsLeftOut all;
    if (first > 0) all.add(sources_.steps[first - 1].left_out);
    for (const StepFigures& step : steps) {
      all.add({1, step.peak_bytes, step.peak_bytes});
      all.add(step.left_out);
    }
    return fmt::format("  … {}, with peaks from {} to {}\n", counted(all.count, "more step"),
                       format_bytes(all.least_peak_bytes), format_bytes(all.largest_peak_bytes));
  }

  [[nodiscard]] std::string number(std::size_t index) const {
    const std::uint32_t step = sources_.steps[index].step;
    return step == 0 ? "before" : grouped(step);
  }

  const DeviceSources& sources_;
  std::size_t width_;
  std::map<std::string, std::size_t> first_with_rows_;  // → row of the step that showed them
};

}  // namespace

std::string step_table(const DeviceSources& sources, const TextStyle& style) {
  if (sources.steps.empty() || sources.steps.back().step == 0) {
    return sources.kind == RunKind::inference ? "  Inference has no training steps.\n"
                                              : "  No training step was recognized.\n";
  }
  return StepTable(sources, style).run();
}

}  // namespace gpumemprof::text
