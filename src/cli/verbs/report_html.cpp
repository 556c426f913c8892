#include "cli/verbs/report_html.h"

#include <fmt/format.h>

#include <fstream>
#include <sstream>

#include "base/file_sink.h"
#include "session/view.h"
#include "session/view_html.h"

namespace gpumemprof::cli {

Result<std::string> load_viewer_page(const Environment& environment) {
  std::ifstream file(environment.viewer_file, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (environment.viewer_file.empty() || !file) {
    return Error{ErrorCode::environment, "the viewer's page is not installed", "",
                 "install gpumemprof with tools/install"};
  }
  return text.str();
}

void print_cuts(const Recordings& recordings) {
  for (const auto& recording : recordings) {
    if (const std::optional<Error> cut = recording->cut()) print_error(cut->sentence());
  }
}

int write_html(const std::vector<std::string>& files, const std::string& output, bool overwrites,
               const Environment& environment) {
  const Result<std::string> page = load_viewer_page(environment);
  if (!page) return fail(page.error());
  const Result<Recordings> recordings = open_recordings(files, look_at_terminal());
  if (!recordings) return fail(recordings.error());
  const ViewHtml made = write_view_html(View(recordings.value(), kMostHtmlDevices), page.value());
  Result<std::unique_ptr<FileSink>> file = FileSink::create(
      output, overwrites ? FileSink::Existing::replace : FileSink::Existing::refuse,
      FileSink::Appears::when_closed);
  if (!file) return fail(file.error());
  Status written = file.value()->write(std::as_bytes(std::span(made.html)));
  if (written) written = file.value()->close();
  if (!written) return fail(written.error());
  print_out(fmt::format("Written to {} ({:.1f} MB); any browser opens it.\n", output,
                        static_cast<double>(made.html.size()) / 1e6));
  for (const std::string& note : made.left_out) print_out("  Left out: " + note + ".\n");
  print_cuts(recordings.value());
  for (const auto& recording : recordings.value()) {
    if (recording->cut()) return exit_code(ErrorCode::bad_input);
  }
  return 0;
}

}  // namespace gpumemprof::cli
