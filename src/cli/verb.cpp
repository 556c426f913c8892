#include "cli/verb.h"

#include <optional>
#include <utility>

namespace gpumemprof::cli {

int fail(const Error& error) {
  print_error(error.sentence());
  return exit_code(error.code);
}

Result<std::shared_ptr<const Recording>> open_recording(const std::string& file,
                                                        const Terminal& terminal) {
  ProgressLine progress("reading " + file, terminal.shows_progress);
  return Recording::open(
      file, {[&](std::uint64_t done, std::uint64_t total) { progress.update(done, total); }});
}

Result<Recordings> open_recordings(const std::vector<std::string>& files,
                                   const Terminal& terminal) {
  Recordings recordings;
  for (const std::string& file : files) {
    Result<std::shared_ptr<const Recording>> opened = open_recording(file, terminal);
    if (!opened) return opened.error();
    recordings.push_back(std::move(opened).value());
  }
  return recordings;
}

int finish(const Recording& recording) {
  if (const std::optional<Error> cut = recording.cut()) return fail(*cut);
  return 0;
}

TextStyle text_style(const Terminal& terminal) {
  TextStyle style;
  style.width = terminal.width;
  style.has_color = terminal.has_color;
  return style;
}

}  // namespace gpumemprof::cli
