#include "cli/verbs/view_verb.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

#include "base/file_sink.h"
#include "cli/browser.h"
#include "cli/flags/number_flag.h"
#include "cli/http/http_server.h"
#include "cli/http/view_requests.h"
#include "cli/terminal.h"
#include "session/view.h"
#include "session/view_html.h"

namespace gpumemprof::cli {
namespace {

int fail(const Error& error) {
  print_error(error.sentence());
  return exit_code(error.code);
}

Result<std::string> load_page(const Environment& environment) {
  std::ifstream file(environment.viewer_file, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (environment.viewer_file.empty() || !file) {
    return Error{ErrorCode::environment, "the viewer's page is not installed", "",
                 "install gpumemprof with tools/install"};
  }
  return text.str();
}

using Recordings = std::vector<std::shared_ptr<const Recording>>;

// Truncated files are shown as far as they go, and reported as cut.
Result<Recordings> open_all(const std::vector<std::string>& files, const Terminal& terminal) {
  Recordings recordings;
  for (const std::string& file : files) {
    ProgressLine progress("reading " + file, terminal.shows_progress);
    Result<std::shared_ptr<const Recording>> opened = Recording::open(
        file, {[&](std::uint64_t done, std::uint64_t total) { progress.update(done, total); }});
    if (!opened) return opened.error();
    recordings.push_back(std::move(opened).value());
  }
  return recordings;
}

void say_what_is_cut(const Recordings& recordings) {
  for (const auto& recording : recordings) {
    if (const std::optional<Error> cut = recording->cut()) print_error(cut->sentence());
  }
}

void print_where(std::uint16_t port, const std::string& url) {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  const char* user = std::getenv("USER");
  const std::string at = (user != nullptr ? std::string(user) + "@" : "") + name.data();
  print_out(
      fmt::format("Viewer: {}\n"
                  "From another machine, first type there:\n"
                  "  ssh -N -L {}:127.0.0.1:{} {}\n"
                  "Ctrl-C ends it.\n",
                  url, port, port, at));
}

// Ctrl-C and a plain kill stop the server instead of killing the process.
class EndSignals {
 public:
  EndSignals() {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGINT);
    sigaddset(&signals_, SIGTERM);
    sigaddset(&signals_, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  }
  EndSignals(const EndSignals&) = delete;
  EndSignals& operator=(const EndSignals&) = delete;
  ~EndSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

  void wait() const {
    int caught = 0;
    sigwait(&signals_, &caught);
  }

 private:
  sigset_t signals_{};
  sigset_t before_{};
};

}  // namespace

void add_view_verb(CLI::App& app, ViewFlags& flags) {
  CLI::App* verb =
      app.add_subcommand("view", "Look at a recording in the browser; two files are compared");
  verb->add_option("files", flags.files, "Recordings: PyTorch memory snapshots or .gmp")
      ->type_name("FILE")
      ->required();
  verb->add_option("--port", flags.port, "The port on 127.0.0.1 (default: any free one)")
      ->type_name("PORT");
  verb->add_flag("--browser", flags.opens_browser,
                 "Open a browser (the default where there is a screen)");
  verb->add_flag("--no-browser", flags.never_opens_browser, "Only print the URL");
}

int run_view(const ViewFlags& flags, const Environment& environment) {
  const Result<std::optional<std::uint64_t>> asked_port =
      parse_number(flags.port, {"--port", 0, UINT16_MAX, "leave --port out to take a free one"});
  if (!asked_port) return fail(asked_port.error());
  const Result<std::string> page = load_page(environment);
  if (!page) return fail(page.error());
  const Terminal terminal = look_at_terminal();
  const Result<Recordings> recordings = open_all(flags.files, terminal);
  if (!recordings) return fail(recordings.error());
  say_what_is_cut(recordings.value());

  View view = [&] {
    ProgressLine progress("preparing the view", terminal.shows_progress);
    progress.begin();
    return View(recordings.value());
  }();
  const std::string token = random_token();
  ViewRequests requests(view, page.value(), token);
  const std::string link = requests.link_for_browser();
  const EndSignals signals;  // before any thread, so that all threads block the signals
  const Result<std::unique_ptr<HttpServer>> server =
      HttpServer::listen(static_cast<std::uint16_t>(asked_port.value().value_or(0)),
                         [&](const HttpRequest& request) { return requests.answer(request); });
  if (!server) return fail(server.error());
  view.prepare_in_background();
  std::thread serving([&] { server.value()->serve(); });
  const std::uint16_t port = server.value()->port();
  const std::string url = fmt::format("http://127.0.0.1:{}/?token={}", port, token);
  print_where(port, url);
  const bool opens =
      !flags.never_opens_browser && (flags.opens_browser || (has_screen() && terminal.has_color));
  // Not the URL: every user of the machine can read the arguments of a process.
  if (opens && !start_browser(fmt::format("http://127.0.0.1:{}{}", port, link)))
    print_error("no browser could be started; open the URL above in one");
  signals.wait();
  server.value()->stop();
  serving.join();
  print_out("\n");
  // Nobody waits for an answer that is still being computed, and there is nothing to save.
  constexpr auto kPatience = std::chrono::seconds(2);
  if (!server.value()->wait_for_connections(kPatience)) ::_exit(0);
  return 0;
}

int write_html(const std::vector<std::string>& files, const std::string& output, bool overwrites,
               const Environment& environment) {
  const Result<std::string> page = load_page(environment);
  if (!page) return fail(page.error());
  const Result<Recordings> recordings = open_all(files, look_at_terminal());
  if (!recordings) return fail(recordings.error());
  const ViewHtml made = write_view_html(View(recordings.value(), kMostHtmlDevices), page.value());
  Result<std::unique_ptr<FileSink>> file = FileSink::create(
      output, overwrites ? FileSink::Existing::replace : FileSink::Existing::refuse,
      FileSink::Appears::when_closed);
  if (!file) return fail(file.error());
  Status written = file.value()->write(std::as_bytes(std::span(made.html)));
  if (written) written = file.value()->close();
  if (!written) return fail(written.error());
  print_out(fmt::format("Written to {}: {:.1f} MB, to be opened in any browser.\n", output,
                        static_cast<double>(made.html.size()) / 1e6));
  for (const std::string& note : made.left_out) print_out("  Left out: " + note + ".\n");
  say_what_is_cut(recordings.value());
  for (const auto& recording : recordings.value()) {
    if (recording->cut()) return exit_code(ErrorCode::bad_input);
  }
  return 0;
}

}  // namespace gpumemprof::cli
