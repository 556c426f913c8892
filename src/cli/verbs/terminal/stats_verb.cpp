// `gpumemprof stats`: all allocations of a run, counted.
#include <CLI/CLI.hpp>

#include "analysis/overview/overview.h"
#include "cli/flags/device_flag.h"
#include "cli/flags/number_flag.h"
#include "cli/verb.h"
#include "cli/verbs/terminal/opened_run.h"
#include "report/terminal/stats_text.h"

namespace gpumemprof::cli {
namespace {

struct StatsFlags {
  std::string file;
  std::string device;
  std::optional<std::string> top;
  bool is_json = false;
};

int run_stats(const StatsFlags& flags) {
  OverviewOptions options;
  const Result<std::optional<DeviceIndex>> device = parse_device(flags.device);
  if (!device) return fail(device.error());
  options.device = device.value();
  const Result<std::optional<std::uint64_t>> top =
      parse_number(flags.top, {.name = "--top", .least = 1, .hint = "try --top 5"});
  if (!top) return fail(top.error());
  const Terminal terminal = look_at_terminal();
  Result<OpenedRun> opened = OpenedRun::open(flags.file, options, terminal);
  if (!opened) return fail(opened.error());
  const Status kind = check_device_kind(flags.device, opened.value().store(), flags.file);
  if (!kind) return fail(kind.error());
  OpenedRun& run = opened.value();
  RunStats stats({});
  const Status taken = run.take_rows([&](const Store& store, const AllocationRow& row) {
    if (!options.device || row.device == *options.device) stats.add(store, row);
  });
  if (!taken) return fail(taken.error());
  const RunCounts counts{run.overview(), run.row_store(), stats.take(), run.is_in_windows()};
  if (flags.is_json) {
    constexpr std::size_t kLinesListed = 100;
    print_json(stats_json(counts, top.value().value_or(kLinesListed)));
  } else {
    constexpr std::size_t kLinesShown = 5;
    TextStyle style = text_style(terminal);
    style.top = top.value().value_or(kLinesShown);
    print_out(stats_text(counts, style));
  }
  const std::optional<Error> cut = run.cut();
  return cut ? fail(*cut) : 0;
}

}  // namespace

VerbAction prepare_stats(CLI::App& verb) {
  const auto flags = std::make_shared<StatsFlags>();
  verb.add_option("file", flags->file, "A recording: .gmp or PyTorch memory snapshot")
      ->type_name("FILE")
      ->required();
  verb.add_option("--top", flags->top, "The N first lines of code (default: 5; with --json, 100)")
      ->type_name("N");
  verb.add_option("--device", flags->device, "Only this device, for example 0 or cuda:0")
      ->type_name("DEVICE");
  verb.add_flag("--json", flags->is_json, "Print the figures as JSON");
  return [flags](const Environment&) { return run_stats(*flags); };
}

}  // namespace gpumemprof::cli
