// `gpumemprof simulate`: a recorded run under other allocator settings.
#include <CLI/CLI.hpp>

#include "analysis/overview/overview.h"
#include "cli/flags/device_flag.h"
#include "cli/flags/part_flag.h"
#include "cli/flags/size_flag.h"
#include "cli/verb.h"
#include "report/json/whatif_json.h"
#include "report/text/whatif_text.h"
#include "session/recording.h"

namespace gpumemprof::cli {
namespace {

struct SimulateFlags {
  std::string file;
  std::vector<std::string> alloc_confs;
  std::vector<std::string> memory_limits;
  std::string torch_version;
  std::string recorded_limit;
  std::string device;
  std::string output;
  PartFlags part;
  bool searches = false;
  bool overwrites = false;
  bool is_json = false;
};

Result<WhatIfOptions> simulate_options(const SimulateFlags& flags) {
  WhatIfOptions options;
  options.alloc_confs = flags.alloc_confs;
  options.searches = flags.searches;
  options.finds_min_memory = true;
  for (const std::string& text : flags.memory_limits) {
    const Result<std::uint64_t> bytes = parse_size(text, "--memory-limit");
    if (!bytes) return bytes.error();
    options.memory_limits.push_back(bytes.value());
  }
  if (!flags.recorded_limit.empty()) {
    const Result<std::uint64_t> bytes = parse_size(flags.recorded_limit, "--recorded-limit");
    if (!bytes) return bytes.error();
    options.recorded_limit_bytes = bytes.value();
  }
  if (!flags.torch_version.empty()) {
    const Result<TorchVersion> version = parse_torch_version(flags.torch_version);
    if (!version) return version.error();
    options.version = version.value();
  }
  const Result<std::optional<DeviceIndex>> device = parse_device(flags.device);
  if (!device) return device.error();
  options.device = device.value();
  return options;
}

int write_simulated(const SimulateFlags& flags, const Recording& recording,
                    const WhatIfOptions& options) {
  const Status written = recording.write_simulated(options, flags.output, flags.overwrites);
  if (!written) return fail(written.error());
  print_out("Simulated run written to " + flags.output + "\nNext:\n  gpumemprof report " +
            flags.output + "\n");
  return 0;
}

int run_simulate(const SimulateFlags& flags) {
  Result<WhatIfOptions> options = simulate_options(flags);
  if (!options) return fail(options.error());
  const Terminal terminal = look_at_terminal();
  const auto part = parse_part(flags.part, options.value().device);
  if (!part) return fail(part.error());
  const Result<std::shared_ptr<const Recording>> recording =
      open_part(flags.file, terminal, part.value(), flags.part.reads_whole);
  if (!recording) return fail(recording.error());
  const Status kind = check_device_kind(flags.device, recording.value()->store(), flags.file);
  if (!kind) return fail(kind.error());
  if (!flags.output.empty()) return write_simulated(flags, *recording.value(), options.value());
  const Result<WhatIf> whatif = [&] {
    ProgressLine progress("simulating", terminal.shows_progress);
    options.value().progress = [&](std::size_t done, std::size_t total) {
      progress.update(done, total);
    };
    return recording.value()->whatif(options.value());
  }();
  if (!whatif) return fail(whatif.error());
  if (flags.is_json) {
    print_json(whatif_json(whatif.value()));
  } else {
    print_out(whatif_text(whatif.value(), text_style(terminal)));
  }
  return finish(*recording.value());
}

}  // namespace

VerbAction prepare_simulate(CLI::App& verb) {
  const auto flags = std::make_shared<SimulateFlags>();
  verb.add_option("file", flags->file, "A recording: .gmp or PyTorch memory snapshot")
      ->type_name("FILE")
      ->required();
  verb.add_option("--alloc-conf", flags->alloc_confs,
                  "PYTORCH_CUDA_ALLOC_CONF to try; can be repeated")
      ->type_name("CONF")
      ->allow_extra_args(false);
  verb.add_option("--memory-limit", flags->memory_limits,
                  "A limit on reserved memory to try; can be repeated")
      ->type_name("SIZE")
      ->allow_extra_args(false);
  verb.add_option("--torch-version", flags->torch_version,
                  "Use the rules of this torch version (2.4 to 2.13)")
      ->type_name("VERSION");
  verb.add_option("--recorded-limit", flags->recorded_limit,
                  "The memory limit of the recorded run, if any")
      ->type_name("SIZE");
  verb.add_flag("--search", flags->searches, "Try sensible settings and rank them by memory");
  verb.add_option("--device", flags->device, "Only this device, for example 0 or cuda:0")
      ->type_name("DEVICE");
  verb.add_option("-o,--output", flags->output, "Write the first simulated run to this .gmp file")
      ->type_name("FILE");
  add_part_flags(verb, flags->part);
  verb.add_flag("-f,--force", flags->overwrites, "Replace an existing output file");
  verb.add_flag("--json", flags->is_json, "Print the result as JSON");
  return [flags](const Environment&) { return run_simulate(*flags); };
}

}  // namespace gpumemprof::cli
