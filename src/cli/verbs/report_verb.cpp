#include "cli/verbs/report_verb.h"

#include <CLI/CLI.hpp>

#include "analysis/overview/overview.h"
#include "cli/flags/device_flag.h"
#include "cli/flags/moment_flag.h"
#include "cli/flags/number_flag.h"
#include "cli/verb.h"
#include "cli/verbs/report_html.h"
#include "report/json/overview_json.h"
#include "report/text/overview/overview_text.h"
#include "session/reported_run.h"

namespace gpumemprof::cli {
namespace {

Result<OverviewOptions> report_options(const ReportFlags& flags) {
  OverviewOptions options;
  const Result<AskedMoment> at = parse_moment(flags.at);
  if (!at) return at.error();
  options.at = at.value();
  const Result<std::optional<DeviceIndex>> device = parse_device(flags.device);
  if (!device) return device.error();
  options.device = device.value();
  return options;
}

class ReportRun {
 public:
  ReportRun(const ReportFlags& flags, const OverviewOptions& options,
            std::optional<std::size_t> top)
      : flags_(flags), options_(options), top_(top), terminal_(look_at_terminal()) {}

  int run() {
    for (const std::string& file : flags_.files) report(file);
    if (flags_.is_json && !reports_.empty()) {
      print_json(flags_.files.size() == 1 ? reports_.front() : reports_json(reports_));
    }
    return exit_code_;
  }

 private:
  void fail(const Error& error) { exit_code_ = std::max(exit_code_, cli::fail(error)); }

  void report(const std::string& file) {
    std::optional<ProgressLine> progress;
    progress.emplace("reading " + file, terminal_.shows_progress);
    const Result<std::unique_ptr<ReportedRun>> run = ReportedRun::open(
        file, {[&](std::uint64_t done, std::uint64_t total) { progress->update(done, total); }});
    if (!run) return fail(run.error());
    const Status kind = check_device_kind(flags_.device, run.value()->store(), file);
    if (!kind) return fail(kind.error());
    const Result<Overview> overview = run.value()->overview(options_);
    progress.reset();
    if (!run.value()->note().empty()) print_error(run.value()->note());
    if (!overview) return fail(overview.error());
    const Store& store = run.value()->store();
    if (flags_.is_json) {
      reports_.push_back(overview_json(overview.value(), store, top_.value_or(kAllGroups)));
    } else {
      TextStyle style = text_style(terminal_);
      style.top = top_.value_or(style.top);
      style.shows_modules = flags_.shows_modules;
      style.shows_steps = flags_.shows_steps;
      style.command = flags_.command;
      print_out((count_++ == 0 ? "" : "\n") + overview_text(overview.value(), store, style));
    }
    if (const std::optional<Error> cut = run.value()->cut()) fail(*cut);
  }

  const ReportFlags& flags_;
  const OverviewOptions& options_;
  std::optional<std::size_t> top_;
  Terminal terminal_;
  std::vector<std::string> reports_;
  std::size_t count_ = 0;
  int exit_code_ = 0;
};

}  // namespace

void add_report_flags(CLI::App& verb, ReportFlags& flags) {
  verb.add_option("--top", flags.top, "The N largest (default: 10; with --json, all)")
      ->type_name("N");
  verb.add_option("--at", flags.at, "The moment to report (default: peak)")
      ->type_name("EVENT|step:N|peak|end");
  verb.add_option("--device", flags.device, "Only this device, for example 0 or cuda:0")
      ->type_name("DEVICE");
  verb.add_flag("--modules", flags.shows_modules, "Also show live memory at the peak by module");
  verb.add_flag("--steps", flags.shows_steps, "Also show peak and live memory by step and phase");
  verb.add_flag("--json", flags.is_json, "Print the report as JSON");
}

int run_report(const ReportFlags& flags, const Environment& environment) {
  const Result<OverviewOptions> options = report_options(flags);
  if (!options) return fail(options.error());
  const Result<std::optional<std::uint64_t>> top =
      parse_number(flags.top, {.name = "--top", .hint = "try --top 10"});
  if (!top) return fail(top.error());
  if (!flags.html.empty())
    return write_html(flags.files, flags.html, flags.overwrites, environment);
  return ReportRun(flags, options.value(), top.value()).run();
}

VerbAction prepare_report(CLI::App& verb) {
  const auto flags = std::make_shared<ReportFlags>();
  verb.add_option("files", flags->files, "Recordings: .gmp or PyTorch memory snapshots")
      ->type_name("FILE")
      ->required();
  add_report_flags(verb, *flags);
  verb.add_option("--html", flags->html, "Write one HTML file with viewer and recording")
      ->type_name("OUT");
  verb.add_flag("-f,--force", flags->overwrites, "Replace an existing HTML file");
  return [flags](const Environment& environment) { return run_report(*flags, environment); };
}

}  // namespace gpumemprof::cli
