// `gpumemprof compare`: two runs at their peaks, and whether the second needs too much more.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>

#include "analysis/overview/overview.h"
#include "base/bytes.h"
#include "cli/flags/device_flag.h"
#include "cli/flags/number_flag.h"
#include "cli/flags/size_flag.h"
#include "cli/verb.h"
#include "cli/verbs/terminal/opened_run.h"
#include "report/terminal/compare_text.h"

namespace gpumemprof::cli {
namespace {

constexpr int kLimitExceeded = 6;

struct CompareFlags {
  std::string first;
  std::string second;
  std::optional<std::string> fail_above;
  std::string device;
  std::optional<std::string> top;
  bool is_json = false;
};

// "5%", "5 %", "200 MiB"; 0 allows no growth at all.
Result<GrowthLimit> parse_growth(const std::string& text) {
  const Error wrong{ErrorCode::usage,
                    "--fail-above takes a share or a size with its unit, not '" + text + "'", "",
                    "try --fail-above 5% or --fail-above 200MiB"};
  if (!text.ends_with('%')) {
    const std::optional<std::uint64_t> bytes = parse_bytes(text);
    if (!bytes || (*bytes > 0 && is_unit_forgotten(text, *bytes))) return wrong;
    return GrowthLimit{std::nullopt, *bytes};
  }
  std::string number = text.substr(0, text.size() - 1);
  while (number.ends_with(' ')) number.pop_back();
  double percent = 0;
  const char* const last = number.data() + number.size();
  const auto [end, error] = std::from_chars(number.data(), last, percent);
  if (error != std::errc() || end != last || !std::isfinite(percent) || percent < 0) return wrong;
  return GrowthLimit{percent, 0};
}

int run_compare(const CompareFlags& flags) {
  std::optional<GrowthLimit> limit;
  if (flags.fail_above) {
    const Result<GrowthLimit> parsed = parse_growth(*flags.fail_above);
    if (!parsed) return fail(parsed.error());
    limit = parsed.value();
  }
  OverviewOptions options;
  const Result<std::optional<DeviceIndex>> device = parse_device(flags.device);
  if (!device) return fail(device.error());
  options.device = device.value();
  const Result<std::optional<std::uint64_t>> top =
      parse_number(flags.top, {.name = "--top", .least = 1, .hint = "try --top 10"});
  if (!top) return fail(top.error());
  const Terminal terminal = look_at_terminal();
  const Result<OpenedRun> first = OpenedRun::open(flags.first, options, terminal);
  if (!first) return fail(first.error());
  const Result<OpenedRun> second = OpenedRun::open(flags.second, options, terminal);
  if (!second) return fail(second.error());
  for (const auto& [run, file] :
       {std::pair(&first.value(), &flags.first), std::pair(&second.value(), &flags.second)}) {
    const Status kind = check_device_kind(flags.device, run->store(), *file);
    if (!kind) return fail(kind.error());
  }
  ShownComparison shown{{&first.value().overview(), &first.value().store()},
                        {&second.value().overview(), &second.value().store()},
                        {},
                        flags.fail_above.value_or(""),
                        false};
  shown.devices = compare_runs(shown.first, shown.second);
  // A gate that compares nothing must not pass.
  if (limit && std::ranges::none_of(shown.devices, &DeviceComparison::has_second))
    return fail({ErrorCode::bad_input, "it has no memory that --fail-above could compare",
                 flags.second, "record the run again, with --cpu if it uses no GPU"});
  shown.is_exceeded = limit && exceeds(shown.devices, *limit);
  if (flags.is_json) {
    print_json(compare_json(shown, top.value().value_or(SIZE_MAX)));
  } else {
    TextStyle style = text_style(terminal);
    style.top = top.value().value_or(style.top);
    print_out(compare_text(shown, style));
  }
  int status = 0;
  for (const OpenedRun* const run : {&first.value(), &second.value()}) {
    if (const std::optional<Error> cut = run->cut()) status = fail(*cut);
  }
  return status == 0 && shown.is_exceeded ? kLimitExceeded : status;
}

}  // namespace

VerbAction prepare_compare(CLI::App& verb) {
  const auto flags = std::make_shared<CompareFlags>();
  verb.add_option("first", flags->first,
                  "A recording: .gmp or PyTorch memory snapshot; or a folder of ranks")
      ->type_name("A")
      ->required();
  verb.add_option("second", flags->second, "What is compared with it")->type_name("B")->required();
  verb.add_option("--fail-above", flags->fail_above,
                  "Exit with code 6 if B's peak is this much above A's, for CI")
      ->type_name("5%|SIZE");
  verb.add_option("--top", flags->top, "The N largest changes (default: 10; with --json, all)")
      ->type_name("N");
  verb.add_option("--device", flags->device, "Only this device, for example 0 or cuda:0")
      ->type_name("DEVICE");
  verb.add_flag("--json", flags->is_json, "Print the comparison as JSON");
  return [flags](const Environment&) { return run_compare(*flags); };
}

}  // namespace gpumemprof::cli
