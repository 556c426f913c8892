// `gpumemprof convert`: a recording in another format.
#include <CLI/CLI.hpp>
#include <optional>

#include "cli/flags/device_flag.h"
#include "cli/flags/part_flag.h"
#include "cli/verb.h"
#include "report/text/overview/completeness_text.h"
#include "session/recording.h"

namespace gpumemprof::cli {
namespace {

struct ConvertFlags {
  std::string file;
  std::string output;
  std::string format;
  std::string device;
  PartFlags part;
  bool overwrites = false;
};

std::string next_step(const Format& format, const std::string& output) {
  const std::string report = "\n  gpumemprof report " + output + "\n";
  if (format.viewer.empty()) return "Next:" + report;
  const std::string viewer = "Next: " + std::string(format.viewer);
  return format.open == nullptr ? viewer + "\n" : viewer + ", or" + report;
}

int run_convert(const ConvertFlags& flags) {
  const Format* format = find_format(flags.format);
  if (format == nullptr || format->write == nullptr) {
    return fail({ErrorCode::usage,
                 "--to takes " + writable_formats() + ", not '" + flags.format + "'", "",
                 "try --to torch-snapshot"});
  }
  const Result<std::optional<DeviceIndex>> device = parse_device(flags.device);
  if (!device) return fail(device.error());
  const auto part = parse_part(flags.part, device.value());
  if (!part) return fail(part.error());
  if (device.value() && !part.value())
    return fail({ErrorCode::usage, "--device belongs to --steps or --events", "",
                 "add --steps 3:5, or leave --device out"});
  if (!part.value() && !flags.part.reads_whole)
    print_memory_of_whole(flags.file, "; --steps A:B or --events A:B writes a part of it");
  const Result<std::shared_ptr<const Recording>> recording =
      open_part(flags.file, look_at_terminal(), part.value(), true);
  if (!recording) return fail(recording.error());
  const FileSink::Existing existing =
      flags.overwrites ? FileSink::Existing::replace : FileSink::Existing::refuse;
  const Status written = format->write(*recording.value(), flags.output, existing);
  if (!written) return fail(written.error());
  Completeness completeness = find_completeness(recording.value()->store());
  completeness.excerpts.clear();  // what was not asked for is not missing
  for (const std::string& sentence : text::missing_sentences(completeness))
    print_error(flags.file + ": " + sentence);
  print_out("Written to " + flags.output + "\n" + next_step(*format, flags.output));
  return finish(*recording.value());
}

}  // namespace

VerbAction prepare_convert(CLI::App& verb) {
  const auto flags = std::make_shared<ConvertFlags>();
  verb.add_option("file", flags->file, "A recording: .gmp or PyTorch memory snapshot")
      ->type_name("FILE")
      ->required();
  verb.add_option("output", flags->output, "The file to write")->type_name("OUT")->required();
  verb.add_option("--to", flags->format, "The format to write: " + writable_formats())
      ->type_name("FORMAT")
      ->required();
  add_part_flags(verb, flags->part);
  verb.add_option("--device", flags->device, "Of a part, only this device, for example cuda:0")
      ->type_name("DEVICE");
  verb.add_flag("-f,--force", flags->overwrites, "Replace an existing output file");
  return [flags](const Environment&) { return run_convert(*flags); };
}

}  // namespace gpumemprof::cli
