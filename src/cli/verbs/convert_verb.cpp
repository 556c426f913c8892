#include "cli/verbs/convert_verb.h"

#include <CLI/CLI.hpp>
#include <optional>

#include "cli/terminal.h"
#include "report/text/overview/completeness_text.h"
#include "session/recording.h"

namespace gpumemprof::cli {
namespace {

int fail(const Error& error) {
  print_error(error.sentence());
  return exit_code(error.code);
}

std::string next_step(const Format& format, const std::string& output) {
  const std::string report = "\n  gpumemprof report " + output + "\n";
  if (format.viewer.empty()) return "Next:" + report;
  const std::string viewer = "Next: " + std::string(format.viewer);
  return format.open == nullptr ? viewer + "\n" : viewer + ", or" + report;
}

}  // namespace

void add_convert_verb(CLI::App& app, ConvertFlags& flags) {
  CLI::App* verb = app.add_subcommand("convert", "Write a recording in another format");
  verb->add_option("file", flags.file, "A recording: .gmp or PyTorch memory snapshot")
      ->type_name("FILE")
      ->required();
  verb->add_option("output", flags.output, "The file to write")->type_name("OUT")->required();
  verb->add_option("--to", flags.format, "The format to write: " + writable_formats())
      ->type_name("FORMAT")
      ->required();
  verb->add_flag("-f,--force", flags.overwrites, "Replace the output file");
}

int run_convert(const ConvertFlags& flags) {
  const Format* format = find_format(flags.format);
  if (format == nullptr || format->write == nullptr) {
    return fail({ErrorCode::usage,
                 "--to takes " + writable_formats() + ", not '" + flags.format + "'", "",
                 "try --to torch-snapshot"});
  }
  const Terminal terminal = look_at_terminal();
  const Result<std::shared_ptr<const Recording>> recording = [&] {
    ProgressLine progress("reading " + flags.file, terminal.shows_progress);
    return Recording::open(flags.file, {[&](std::uint64_t done, std::uint64_t total) {
                             progress.update(done, total);
                           }});
  }();
  if (!recording) return fail(recording.error());
  const FileSink::Existing existing =
      flags.overwrites ? FileSink::Existing::replace : FileSink::Existing::refuse;
  const Status written = format->write(*recording.value(), flags.output, existing);
  if (!written) return fail(written.error());
  for (const std::string& sentence :
       text::missing_sentences(find_completeness(recording.value()->store())))
    print_error(flags.file + ": " + sentence);
  print_out("Written to " + flags.output + "\n" + next_step(*format, flags.output));
  if (const std::optional<Error> cut = recording.value()->cut()) return fail(*cut);
  return 0;
}

}  // namespace gpumemprof::cli
