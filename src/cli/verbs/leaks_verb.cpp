// `gpumemprof leaks`: memory that grows from step to step, and the lines that allocate it.
#include <CLI/CLI.hpp>
#include <optional>
#include <sstream>
#include <utility>

#include "analysis/overview/overview.h"
#include "base/byte_source.h"
#include "cli/flags/device_flag.h"
#include "cli/flags/size_flag.h"
#include "cli/verb.h"
#include "report/leaks/leaks_json.h"
#include "report/leaks/leaks_text.h"
#include "session/reported_run.h"

namespace gpumemprof::cli {
namespace {

constexpr int kLeakFound = 5;

struct LeaksFlags {
  std::string file;
  std::string device;
  std::string memory_limit;
  std::vector<std::string> suppressions;
  std::string suppression_file;
  bool fails = false;
  bool is_json = false;
};

// One place a line; what follows # is a comment.
Status read_suppressions(const std::string& path, std::vector<std::string>& suppressions) {
  constexpr std::uint64_t kMostBytes = std::uint64_t{16} << 20;
  Result<std::string> text = read_file(path, kMostBytes);
  if (!text)
    return Error{ErrorCode::usage, "the file of suppressions cannot be read", path,
                 "write one FILE:LINE a line into it"};
  std::istringstream file(std::move(text).value());
  for (std::string line; std::getline(file, line);) {
    line = line.substr(0, line.find('#'));
    const std::size_t first = line.find_first_not_of(" \t\r");
    if (first == std::string::npos) continue;
    suppressions.push_back(line.substr(first, line.find_last_not_of(" \t\r") - first + 1));
  }
  return Done{};
}

Result<LeaksOptions> leaks_options(const LeaksFlags& flags) {
  LeaksOptions options;
  options.suppressions = flags.suppressions;
  if (!flags.suppression_file.empty()) {
    const Status read = read_suppressions(flags.suppression_file, options.suppressions);
    if (!read) return read.error();
  }
  if (!flags.memory_limit.empty()) {
    const Result<std::uint64_t> bytes = parse_size(flags.memory_limit, "--memory-limit");
    if (!bytes) return bytes.error();
    options.memory_limit_bytes = bytes.value();
  }
  const Result<std::optional<DeviceIndex>> device = parse_device(flags.device);
  if (!device) return device.error();
  options.device = device.value();
  return options;
}

int run_leaks(const LeaksFlags& flags) {
  const Result<LeaksOptions> options = leaks_options(flags);
  if (!options) return fail(options.error());
  const Terminal terminal = look_at_terminal();
  std::optional<ProgressLine> progress;
  progress.emplace("reading " + flags.file, terminal.shows_progress);
  const Result<std::unique_ptr<ReportedRun>> run = ReportedRun::open(
      flags.file,
      {[&](std::uint64_t done, std::uint64_t total) { progress->update(done, total); }});
  if (!run) return fail(run.error());
  const Status kind = check_device_kind(flags.device, run.value()->store(), flags.file);
  if (!kind) return fail(kind.error());
  const Result<LeaksReport> leaks = run.value()->leaks(options.value());
  progress.reset();
  if (!run.value()->note().empty()) print_error(run.value()->note());
  if (!leaks) return fail(leaks.error());
  if (flags.is_json) {
    print_json(leaks_json(leaks.value(), run.value()->store()));
  } else {
    print_out(leaks_text(leaks.value(), run.value()->store(), text_style(terminal)));
  }
  const std::optional<Error> cut = run.value()->cut();
  const int status = cut ? fail(*cut) : 0;
  const DeviceLeaks* worst = leaks.value().worst();
  const bool has_leak = worst != nullptr && worst->verdict == LeakVerdict::leak;
  return status == 0 && flags.fails && has_leak ? kLeakFound : status;
}

}  // namespace

VerbAction prepare_leaks(CLI::App& verb) {
  const auto flags = std::make_shared<LeaksFlags>();
  verb.add_option("file", flags->file, "A recording: .gmp or PyTorch memory snapshot")
      ->type_name("FILE")
      ->required();
  verb.add_flag("--fail", flags->fails, "Exit with code 5 if there is a leak");
  verb.add_option("--suppress", flags->suppressions,
                  "A line that may grow, FILE:LINE or FILE; can be repeated")
      ->type_name("PLACE")
      ->allow_extra_args(false);
  verb.add_option("--suppressions", flags->suppression_file,
                  "A file of such lines, one each; # begins a comment")
      ->type_name("FILE");
  verb.add_option("--memory-limit", flags->memory_limit,
                  "Predict when this much memory is used up, instead of the card's")
      ->type_name("SIZE");
  verb.add_option("--device", flags->device, "Only this device, for example 0 or cuda:0")
      ->type_name("DEVICE");
  verb.add_flag("--json", flags->is_json, "Print the result as JSON");
  return [flags](const Environment&) { return run_leaks(*flags); };
}

}  // namespace gpumemprof::cli
