// `gpumemprof view`: the viewer, served to a browser on this machine.
#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <thread>

#include "cli/browser.h"
#include "cli/flags/number_flag.h"
#include "cli/http/http_server.h"
#include "cli/http/rank_requests.h"
#include "cli/http/view_requests.h"
#include "cli/verb.h"
#include "cli/verbs/report_html.h"
#include "session/growing_view.h"

namespace gpumemprof::cli {
namespace {

struct ViewFlags {
  std::vector<std::string> files;
  std::optional<std::string> port;
  bool opens_browser = false;
  bool never_opens_browser = false;
};

void print_where(std::uint16_t port, const std::string& url) {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  const char* user = std::getenv("USER");
  const std::string at = (user != nullptr ? std::string(user) + "@" : "") + name.data();
  print_out(
      fmt::format("Viewer: {}\n"
                  "To open it on another machine, first run there:\n"
                  "  ssh -N -L {}:127.0.0.1:{} {}\n"
                  "Press Ctrl-C to stop.\n",
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

Result<std::unique_ptr<GrowingView>> open_view(const std::vector<std::string>& files,
                                               const Terminal& terminal) {
  const Result<std::vector<ViewedRun>> runs = open_viewed_runs(files, View::kAllDevices);
  if (!runs) return runs.error();
  print_cuts(runs.value());
  ProgressLine progress("preparing the view", terminal.shows_progress);
  progress.begin();
  return std::make_unique<GrowingView>(runs.value());
}

// What a browser asks, and who may ask.
struct Served {
  HttpServer::Handler answer;
  std::string token;
  std::string link;  // for the command line of a browser
  std::function<void()> start = [] {};
};

int serve(const ViewFlags& flags, const Terminal& terminal, std::uint16_t asked_port,
          const Served& served) {
  const EndSignals signals;  // before any thread, so that all threads block the signals
  const Result<std::unique_ptr<HttpServer>> server = HttpServer::listen(asked_port, served.answer);
  if (!server) return fail(server.error());
  served.start();
  std::thread serving([&] { server.value()->serve(); });
  const std::uint16_t port = server.value()->port();
  print_where(port, fmt::format("http://127.0.0.1:{}/?token={}", port, served.token));
  const bool opens =
      !flags.never_opens_browser && (flags.opens_browser || (has_screen() && terminal.has_color));
  // Not the URL: every user of the machine can read the arguments of a process.
  if (opens && !start_browser(fmt::format("http://127.0.0.1:{}{}", port, served.link)))
    print_error("no browser could be started; open the URL above yourself");
  signals.wait();
  server.value()->stop();
  serving.join();
  print_out("\n");
  // Nobody waits for an answer that is still being computed, and there is nothing to save.
  constexpr auto kPatience = std::chrono::seconds(2);
  if (!server.value()->wait_for_connections(kPatience)) {
    WorkFolder::remove_all();
    ::_exit(0);
  }
  return 0;
}

int view_ranks(const ViewFlags& flags, const RankPages& pages, std::uint16_t port,
               const std::string& viewer_page) {
  const Result<std::string> page = load_page(pages.page_file);
  if (!page) return fail(page.error());
  const std::string token = random_token();
  // Recordings are opened while the page waits: there, not here, is the place for progress.
  const Terminal silent;
  RankRequests requests(pages, page.value(), viewer_page, token, [&](const std::string& recording) {
    return open_view({recording}, silent);
  });
  const std::string link = requests.link_for_browser();
  return serve(flags, look_at_terminal(), port,
               {[&](const HttpRequest& request) { return requests.answer(request); }, token, link});
}

int run_view(const ViewFlags& flags, const Environment& environment) {
  const Result<std::optional<std::uint64_t>> asked_port =
      parse_number(flags.port, {"--port", 0, UINT16_MAX, "leave --port out to take a free one"});
  if (!asked_port) return fail(asked_port.error());
  const auto port = static_cast<std::uint16_t>(asked_port.value().value_or(0));
  const Result<std::string> page = load_viewer_page(environment);
  if (!page) return fail(page.error());
  if (environment.ranks) return view_ranks(flags, *environment.ranks, port, page.value());
  const Terminal terminal = look_at_terminal();
  const Result<std::unique_ptr<GrowingView>> view = open_view(flags.files, terminal);
  if (!view) return fail(view.error());
  const std::string token = random_token();
  ViewRequests requests(*view.value(), page.value(), token);
  const std::string link = requests.link_for_browser();
  return serve(flags, terminal, port,
               {[&](const HttpRequest& request) { return requests.answer(request); }, token, link,
                [&] { view.value()->start(); }});
}

}  // namespace

VerbAction prepare_view(CLI::App& verb) {
  const auto flags = std::make_shared<ViewFlags>();
  verb.add_option("files", flags->files, "Recordings (.gmp, snapshots), or one folder of ranks")
      ->type_name("FILE")
      ->required();
  verb.add_option("--port", flags->port, "The port on 127.0.0.1 (default: any free one)")
      ->type_name("PORT");
  verb.add_flag("--browser", flags->opens_browser,
                "Open a browser (default if there is a display)");
  verb.add_flag("--no-browser", flags->never_opens_browser, "Only print the URL, open no browser");
  return [flags](const Environment& environment) { return run_view(*flags, environment); };
}

}  // namespace gpumemprof::cli
