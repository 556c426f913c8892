// `gpumemprof info`: what a recording is, without analyzing it.
#include <CLI/CLI.hpp>

#include "cli/verb.h"
#include "report/json/info_json.h"
#include "report/text/info_text.h"
#include "session/excerpt/scanned_run.h"
#include "session/file_info.h"

namespace gpumemprof::cli {
namespace {

struct InfoFlags {
  std::string file;
  bool is_json = false;
};

int run_info(const InfoFlags& flags) {
  const Terminal terminal = look_at_terminal();
  const Result<FileInfo> file = look_at_file(flags.file);
  if (!file) return fail(file.error());
  RecordingInfo info;
  std::optional<Error> cut;
  if (is_long_recording(flags.file)) {
    ProgressLine progress("reading " + flags.file, terminal.shows_progress);
    Result<ScannedRun> run =
        scan_run(file.value(),
                 {[&](std::uint64_t done, std::uint64_t total) { progress.update(done, total); }});
    if (!run) return fail(run.error());
    info = std::move(run.value().info);
    cut = run.value().cut;
  } else {
    const Result<std::shared_ptr<const Recording>> recording = open_recording(flags.file, terminal);
    if (!recording) return fail(recording.error());
    info = find_info(recording.value()->store(), file.value());
    cut = recording.value()->cut();
  }
  if (flags.is_json) {
    print_json(info_json(info));
  } else {
    print_out(info_text(info, text_style(terminal)));
  }
  return cut ? fail(*cut) : 0;
}

}  // namespace

VerbAction prepare_info(CLI::App& verb) {
  const auto flags = std::make_shared<InfoFlags>();
  verb.add_option("file", flags->file, "A recording: .gmp or PyTorch memory snapshot")
      ->type_name("FILE")
      ->required();
  verb.add_flag("--json", flags->is_json, "Print the description as JSON");
  return [flags](const Environment&) { return run_info(*flags); };
}

}  // namespace gpumemprof::cli
