// `gpumemprof convert`: a recording in another format.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <optional>

#include "cli/flags/device_flag.h"
#include "cli/flags/moment_flag.h"
#include "cli/flags/part_flag.h"
#include "cli/python_verbs.h"
#include "cli/verb.h"
#include "report/text/overview/completeness_text.h"
#include "session/excerpt/scanned_run.h"
#include "session/exports/exports.h"
#include "session/file_info.h"
#include "session/recording.h"
#include "session/reported_run.h"

namespace gpumemprof::cli {
namespace {

struct ConvertFlags {
  std::string file;
  std::string output;
  std::string format;
  std::string device;
  std::string at;
  std::string clock_of;
  std::string table;
  PartFlags part;
  bool overwrites = false;
};

Error usage_of_format(const std::string& flag, const Format& format, const std::string& hint) {
  return {ErrorCode::usage, flag + " does not belong to --to " + std::string(format.name), "",
          hint};
}

// The package writes two more before it comes here; their suffixes are their names.
constexpr std::array<std::string_view, 2> kOfPackage = {"parquet", "arrow"};

std::string convertible_formats() { return writable_formats(kOfPackage); }

// The only one of this suffix; empty: there is none, or several.
std::string format_of_suffix(const std::string& output) {
  std::vector<std::string_view> names;
  for (const Format& format : formats())
    if (format.write != nullptr && output.ends_with(format.suffix)) names.push_back(format.name);
  for (const std::string_view name : kOfPackage)
    if (output.ends_with("." + std::string(name))) names.push_back(name);
  return names.size() == 1 ? std::string(names.front()) : std::string();
}

std::string next_step(const Format& format, const std::string& output) {
  const std::string report = "\n  gpumemprof report " + output + "\n";
  if (format.viewer.empty()) return "Next:" + report;
  const std::string viewer = "Next: " + std::string(format.viewer);
  return format.open == nullptr ? viewer + "\n" : viewer + ", or" + report;
}

int finish_convert(const ConvertFlags& flags, const Format& format, Completeness completeness,
                   const std::optional<Error>& cut) {
  completeness.excerpts.clear();  // what was not asked for is not missing
  for (const std::string& sentence : text::missing_sentences(completeness))
    print_error(flags.file + ": " + sentence);
  print_out("Written to " + flags.output + "\n" + next_step(format, flags.output));
  return cut ? fail(*cut) : 0;
}

// A long recording, block by block.
int copy_long(const ConvertFlags& flags, const Format& format, FileSink::Existing existing) {
  const Result<FileInfo> file = look_at_file(flags.file);
  if (!file) return fail(file.error());
  const Result<ScannedRun> copied = [&] {
    ProgressLine progress("reading " + flags.file, look_at_terminal().shows_progress);
    return copy_run(file.value(), {[&](std::uint64_t done, std::uint64_t total) {
                      progress.update(done, total);
                    }},
                    flags.output, existing);
  }();
  if (!copied) return fail(copied.error());
  return finish_convert(flags, format, copied.value().info.completeness, copied.value().cut);
}

// Of a long recording: it shows the peak, as a report does.
int fold_long(const ConvertFlags& flags, const Format& format, FileSink::Existing existing) {
  std::optional<ProgressLine> progress;
  progress.emplace("reading " + flags.file, look_at_terminal().shows_progress);
  const Result<std::unique_ptr<ReportedRun>> run = ReportedRun::open(
      flags.file, {[&](std::uint64_t done, std::uint64_t total) { progress->update(done, total); }},
      false, false);
  if (!run) return fail(run.error());
  const Result<Overview> overview = run.value()->overview();
  progress.reset();
  if (!run.value()->note().empty()) print_error(run.value()->note());
  if (!overview) return fail(overview.error());
  const Status written =
      format.write_overview(overview.value(), run.value()->store(), flags.output, existing);
  if (!written) return fail(written.error());
  return finish_convert(flags, format, overview.value().completeness, run.value()->cut());
}

// What belongs to some formats only.
Result<ExportOptions> export_options(const ConvertFlags& flags, const Format& format,
                                     std::optional<DeviceIndex> device, bool is_part) {
  ExportOptions options;
  options.device = device;
  options.clock_of = flags.clock_of;
  options.table = flags.table;
  if (!flags.at.empty() && !format.has_moment)
    return usage_of_format("--at", format, "a file of it shows the whole run; leave --at out");
  if (!flags.clock_of.empty() && !format.has_clock)
    return usage_of_format("--clock-of", format, "leave it out, or write --to perfetto");
  if (!flags.table.empty() && !format.has_tables)
    return usage_of_format("--table", format, "leave it out, or write --to csv");
  if (flags.at.empty()) return options;
  const Result<AskedMoment> at = parse_moment(flags.at);
  if (!at) return at.error();
  if (at.value().kind == AskedMoment::Kind::step)
    return Error{ErrorCode::usage, "convert shows no step", "",
                 "name the event that gpumemprof report FILE --at " + flags.at + " says"};
  if (is_part && at.value().kind == AskedMoment::Kind::event)
    return Error{ErrorCode::usage, "--at EVENT and a part exclude each other", "",
                 "leave --steps and --events out, or write --at end"};
  options.at = at.value();
  return options;
}

// Window by window; a part is in memory.
int export_run(const ConvertFlags& flags, const Format& format, const ExportOptions& options,
               const std::optional<AskedPart>& part, FileSink::Existing existing) {
  std::optional<ProgressLine> progress;
  Result<std::unique_ptr<TabledRun>> run = [&]() -> Result<std::unique_ptr<TabledRun>> {
    if (part || flags.part.reads_whole) {
      Result<std::shared_ptr<const Recording>> recording =
          open_part(flags.file, look_at_terminal(), part, true);
      if (!recording) return recording.error();
      return TabledRun::of(std::move(recording).value());
    }
    progress.emplace("reading " + flags.file, look_at_terminal().shows_progress);
    return TabledRun::open(flags.file, {[&](std::uint64_t done, std::uint64_t total) {
                             progress->update(done, total);
                           }});
  }();
  if (!run) return fail(run.error());
  const Status written = format.write_run(*run.value(), options, flags.output, existing);
  progress.reset();
  if (!written) return fail(written.error());
  return finish_convert(flags, format, run.value()->completeness(), run.value()->cut());
}

int run_convert(const ConvertFlags& flags, const Environment& environment) {
  const std::string name = flags.format.empty() ? format_of_suffix(flags.output) : flags.format;
  if (name.empty())
    return fail({ErrorCode::usage, "'" + flags.output + "' does not end like one of the formats",
                 "", "add --to " + convertible_formats()});
  if (!environment.is_in_package && std::ranges::find(kOfPackage, name) != kOfPackage.end())
    return fail(needs_package("convert --to " + name, "convert FILE OUT --to " + name));
  const Format* format = find_format(name);
  if (format == nullptr || format->write == nullptr) {
    return fail({ErrorCode::usage, "--to takes " + convertible_formats() + ", not '" + name + "'",
                 "", "try --to torch-snapshot"});
  }
  const Result<std::optional<DeviceIndex>> device = parse_device(flags.device);
  if (!device) return fail(device.error());
  const auto part = parse_part(flags.part, device.value());
  if (!part) return fail(part.error());
  const Result<ExportOptions> options =
      export_options(flags, *format, device.value(), part.value().has_value());
  if (!options) return fail(options.error());
  if (device.value() && !part.value() && format->write_run == nullptr)
    return fail({ErrorCode::usage, "--device belongs to --steps or --events", "",
                 "add --steps 3:5, or leave --device out"});
  const FileSink::Existing existing =
      flags.overwrites ? FileSink::Existing::replace : FileSink::Existing::refuse;
  if (format->write_run != nullptr)
    return export_run(flags, *format, options.value(), part.value(), existing);
  if (!part.value() && !flags.part.reads_whole && is_long_recording(flags.file)) {
    if (format->is_streamed) return copy_long(flags, *format, existing);
    if (format->write_overview != nullptr) return fold_long(flags, *format, existing);
    print_memory_of_whole(flags.file, ", because a file of the format " +
                                          std::string(format->name) +
                                          " is made from all of it at once; --steps A:B or "
                                          "--events A:B writes a part of it");
  }
  const Result<std::shared_ptr<const Recording>> recording =
      open_part(flags.file, look_at_terminal(), part.value(), true);
  if (!recording) return fail(recording.error());
  const Status written = format->write(*recording.value(), flags.output, existing);
  if (!written) return fail(written.error());
  return finish_convert(flags, *format, find_completeness(recording.value()->store()),
                        recording.value()->cut());
}

}  // namespace

VerbAction prepare_convert(CLI::App& verb) {
  const auto flags = std::make_shared<ConvertFlags>();
  verb.add_option("file", flags->file, "A recording: .gmp or PyTorch memory snapshot")
      ->type_name("FILE")
      ->required();
  verb.add_option("output", flags->output, "The file to write")->type_name("OUT")->required();
  verb.add_option("--to", flags->format,
                  "The format to write: " + convertible_formats() + " (default: by OUT's suffix)")
      ->type_name("FORMAT");
  add_part_flags(verb, flags->part);
  verb.add_option("--device", flags->device, "Of a part or a profile, only this device: cuda:0")
      ->type_name("DEVICE");
  verb.add_option("--at", flags->at, "The moment that a profile shows (default: peak)")
      ->type_name("EVENT|peak|end");
  verb.add_option("--clock-of", flags->clock_of, "For perfetto: a torch.profiler trace of the run")
      ->type_name("TRACE");
  verb.add_option("--table", flags->table, "For csv, parquet and arrow: only this table, to a file")
      ->type_name("TABLE");
  verb.add_flag("-f,--force", flags->overwrites, "Replace an existing output file");
  return [flags](const Environment& environment) { return run_convert(*flags, environment); };
}

}  // namespace gpumemprof::cli
