#include "cli/verbs/report_html.h"

#include <fmt/core.h>

#include <fstream>
#include <sstream>

#include "base/file_sink.h"
#include "session/html/view_html.h"
#include "session/view.h"

namespace gpumemprof::cli {

Result<std::string> load_viewer_page(const Environment& environment) {
  return load_page(environment.viewer_file);
}

Result<std::string> load_page(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (path.empty() || !file) {
    return Error{ErrorCode::environment, "the viewer's page is not installed", "",
                 "install gpumemprof with tools/install"};
  }
  return text.str();
}

Result<std::vector<ViewedRun>> open_viewed_runs(const std::vector<std::string>& files,
                                                std::size_t most_devices) {
  const Terminal terminal = look_at_terminal();
  std::vector<ViewedRun> runs;
  for (const std::string& file : files) {
    Result<ViewedRun> run = [&] {
      ProgressLine progress("reading " + file, terminal.shows_progress);
      const auto update = [&](std::uint64_t done, std::uint64_t total) {
        progress.update(done, total);
      };
      return open_viewed_run(file, {{update}, most_devices});
    }();
    if (!run) return run.error();
    if (!run.value().note.empty()) print_error(run.value().note);
    runs.push_back(std::move(run).value());
  }
  return runs;
}

bool print_cuts(const std::vector<ViewedRun>& runs) {
  bool is_any_cut = false;
  for (const ViewedRun& run : runs) {
    const std::optional<Error> cut = run.cut();
    if (cut) print_error(cut->sentence());
    is_any_cut |= cut.has_value();
  }
  return is_any_cut;
}

int write_html(const std::vector<std::string>& files, const std::string& output, bool overwrites,
               const Environment& environment) {
  const Result<std::string> page = load_viewer_page(environment);
  if (!page) return fail(page.error());
  const Result<std::vector<ViewedRun>> runs = open_viewed_runs(files, kMostHtmlDevices);
  if (!runs) return fail(runs.error());
  const Result<ViewHtml> made = write_view_html(View(runs.value(), kMostHtmlDevices), page.value());
  if (!made) return fail(made.error());
  Result<std::unique_ptr<FileSink>> file = FileSink::create(
      output, overwrites ? FileSink::Existing::replace : FileSink::Existing::refuse,
      FileSink::Appears::when_closed);
  if (!file) return fail(file.error());
  Status written = file.value()->write(std::as_bytes(std::span(made.value().html)));
  if (written) written = file.value()->close();
  if (!written) return fail(written.error());
  print_out(fmt::format("Written to {} ({:.1f} MB); any browser opens it.\n", output,
                        static_cast<double>(made.value().html.size()) / 1e6));
  for (const std::string& note : made.value().left_out) print_out("  Left out: " + note + ".\n");
  return print_cuts(runs.value()) ? exit_code(ErrorCode::bad_input) : 0;
}

}  // namespace gpumemprof::cli
