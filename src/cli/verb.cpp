#include "cli/verb.h"

#include <optional>
#include <utility>

#include "base/bytes.h"

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

Result<std::shared_ptr<const Recording>> open_part(const std::string& file,
                                                   const Terminal& terminal,
                                                   const std::optional<AskedPart>& asked,
                                                   bool reads_whole) {
  if (!asked && (reads_whole || !is_long_recording(file))) return open_recording(file, terminal);
  Result<std::shared_ptr<const Recording>> part = [&] {
    ProgressLine progress("reading " + file, terminal.shows_progress);
    return open_excerpt(
        file, asked.value_or(AskedPart()),
        {[&](std::uint64_t done, std::uint64_t total) { progress.update(done, total); }});
  }();
  // Its start is not known: only the whole shows it.
  if (part && part.value() == nullptr && !asked) return open_recording(file, terminal);
  if (part && part.value() == nullptr)
    return Error{ErrorCode::usage, "no part of it can be opened: its start is not known", file,
                 "leave --steps and --events out"};
  return part;
}

void print_memory_of_whole(const std::string& file, const std::string& instead) {
  if (!is_long_recording(file)) return;
  print_error(file + " is long and is read as a whole, which takes about " +
              format_bytes(memory_of_whole(file)) + " of memory" + instead);
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
