// `gpumemprof convert`: a recording in another format.
#include <CLI/CLI.hpp>
#include <optional>

#include "cli/verb.h"
#include "report/text/overview/completeness_text.h"
#include "session/conversion.h"

namespace gpumemprof::cli {
namespace {

struct ConvertFlags {
  std::string file;
  std::string output;
  std::string format;
  bool overwrites = false;
};

std::optional<FileFormat> parse_format(const std::string& text) {
  if (text == "gmp") return FileFormat::gmp;
  if (text == "torch-snapshot") return FileFormat::torch_snapshot;
  return std::nullopt;
}

std::string next_step(FileFormat format, const std::string& output) {
  if (format == FileFormat::gmp) return "Next:\n  gpumemprof report " + output + "\n";
  return "Next: drop it onto https://pytorch.org/memory_viz, or\n  gpumemprof report " + output +
         "\n";
}

int run_convert(const ConvertFlags& flags) {
  const std::optional<FileFormat> format = parse_format(flags.format);
  if (!format) {
    return fail({ErrorCode::usage, "--to takes torch-snapshot or gmp, not '" + flags.format + "'",
                 "", "try --to torch-snapshot"});
  }
  const Result<std::shared_ptr<const Recording>> recording =
      open_recording(flags.file, look_at_terminal());
  if (!recording) return fail(recording.error());
  const FileSink::Existing existing =
      flags.overwrites ? FileSink::Existing::replace : FileSink::Existing::refuse;
  const Status written = convert(*recording.value(), *format, flags.output, existing);
  if (!written) return fail(written.error());
  for (const std::string& sentence :
       text::missing_sentences(find_completeness(recording.value()->store())))
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
  verb.add_option("--to", flags->format, "The format to write: torch-snapshot or gmp")
      ->type_name("FORMAT")
      ->required();
  verb.add_flag("-f,--force", flags->overwrites, "Replace an existing output file");
  return [flags](const Environment&) { return run_convert(*flags); };
}

}  // namespace gpumemprof::cli
