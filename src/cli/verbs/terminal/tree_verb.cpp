// `gpumemprof tree`: what is live at the peak, as a tree of call stacks.
#include <CLI/CLI.hpp>

#include "analysis/overview/overview.h"
#include "cli/flags/device_flag.h"
#include "cli/flags/moment_flag.h"
#include "cli/flags/number_flag.h"
#include "cli/verb.h"
#include "cli/verbs/terminal/opened_run.h"
#include "report/terminal/tree_text.h"

namespace gpumemprof::cli {
namespace {

struct TreeFlags {
  std::string file;
  std::string at = "peak";
  std::string device;
  std::optional<std::string> top;
  bool shows_all_calls = false;
  bool is_json = false;
};

int run_tree(const TreeFlags& flags) {
  OverviewOptions options;
  const Result<AskedMoment> at = parse_moment(flags.at);
  if (!at) return fail(at.error());
  options.at = at.value();
  const Result<std::optional<DeviceIndex>> device = parse_device(flags.device);
  if (!device) return fail(device.error());
  options.device = device.value();
  const Result<std::optional<std::uint64_t>> top =
      parse_number(flags.top, {.name = "--top", .least = 1, .hint = "try --top 10"});
  if (!top) return fail(top.error());
  const Terminal terminal = look_at_terminal();
  const Result<OpenedRun> run = OpenedRun::open(flags.file, options, terminal);
  if (!run) return fail(run.error());
  const Status kind = check_device_kind(flags.device, run.value().store(), flags.file);
  if (!kind) return fail(kind.error());
  if (flags.is_json) {
    print_json(tree_json(run.value().overview(), run.value().store()));
  } else {
    TreeStyle style{text_style(terminal), flags.shows_all_calls};
    style.text.top = top.value().value_or(style.text.top);
    print_out(tree_text(run.value().overview(), run.value().store(), style));
  }
  const std::optional<Error> cut = run.value().cut();
  return cut ? fail(*cut) : 0;
}

}  // namespace

VerbAction prepare_tree(CLI::App& verb) {
  const auto flags = std::make_shared<TreeFlags>();
  verb.add_option("file", flags->file, "A recording: .gmp or PyTorch memory snapshot")
      ->type_name("FILE")
      ->required();
  verb.add_option("--at", flags->at, "The moment to show (default: peak)")
      ->type_name("EVENT|step:N|peak|end");
  verb.add_option("--top", flags->top, "The N largest stacks (default: 10; with --json, all)")
      ->type_name("N");
  verb.add_option("--device", flags->device, "Only this device, for example 0 or cuda:0")
      ->type_name("DEVICE");
  verb.add_flag("--all-calls", flags->shows_all_calls,
                "A line for every call, also those that lead to one place only");
  verb.add_flag("--json", flags->is_json, "Print the tree as JSON");
  return [flags](const Environment&) { return run_tree(*flags); };
}

}  // namespace gpumemprof::cli
