#include "cli/http/view_requests.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <ctime>
#include <random>

#include "report/view/page.h"
#include "report/view/questions.h"
#include "report/view/view_json.h"

namespace gpumemprof::cli {
namespace {

constexpr const char* kPlainText = "text/plain; charset=utf-8";

bool is_equal(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  // Compare everything, wherever the first difference is: the time must reveal nothing.
  for (std::size_t index = 0; index < a.size(); ++index)
    difference |= static_cast<unsigned>(a[index] ^ b[index]);
  return difference == 0;
}

// A web page whose name was made to resolve to this machine (DNS rebinding) sends its own name
// here. Only one of our names and a port is accepted: anything another reader could interpret as
// more is refused.
bool is_own_host(std::string_view host) {
  constexpr std::size_t kMostDigits = 5;
  for (const std::string_view name : {"127.0.0.1", "localhost", "[::1]"}) {
    if (!host.starts_with(name)) continue;
    std::string_view port = host.substr(name.size());
    if (port.empty()) return true;
    if (port.front() != ':') return false;
    port.remove_prefix(1);
    return !port.empty() && port.size() <= kMostDigits &&
           std::ranges::all_of(port, [](char digit) { return digit >= '0' && digit <= '9'; });
  }
  return false;
}

// Of this thread.
double cpu_milliseconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (static_cast<double>(now.tv_sec) * 1e3) + (static_cast<double>(now.tv_nsec) / 1e6);
}

// Of the View that the page draws.
std::optional<std::uint64_t> generation_of(const HttpRequest& request) {
  const auto found = request.parameters.find("generation");
  if (found == request.parameters.end()) return std::nullopt;
  std::uint64_t generation = 0;
  const std::string& text = found->second;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), generation);
  if (failed != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return generation;
}

// The page tells a question that makes no sense from a recording that is no longer what it was.
HttpResponse refused(const Error& error) {
  const bool is_gone = error.code == ErrorCode::bad_input || error.code == ErrorCode::environment;
  return {is_gone ? 410 : 400, "application/json", view::error_json(error.sentence()), {}, false};
}

}  // namespace

ViewRequests::ViewRequests(const GrowingView& view, std::string page, std::string token)
    : view_(view),
      page_(std::move(page)),
      policy_(view::page_policy(page_) + "; frame-ancestors 'none'"),
      token_(std::move(token)) {}

bool ViewRequests::has_token(const HttpRequest& request) const {
  const auto token = request.parameters.find("token");
  return token != request.parameters.end() && is_equal(token->second, token_);
}

std::string ViewRequests::link_for_browser() {
  link_ = random_token();
  is_link_used_ = false;
  return "/open/" + link_;
}

// The link appears in the process list, where every user of the machine can read it. So it works
// once, and only for the user who started us.
std::optional<HttpResponse> ViewRequests::follow_link(const HttpRequest& request) {
  if (link_.empty() || !is_equal(request.path, "/open/" + link_)) return std::nullopt;
  if (!request.is_from_same_user || is_link_used_.exchange(true)) {
    return HttpResponse{403,
                        kPlainText,
                        "This link works only once: open the URL that gpumemprof view printed.",
                        {},
                        false};
  }
  return HttpResponse{303, kPlainText, "", {{"Location", "/?token=" + token_}}, true};
}

HttpResponse ViewRequests::respond(const HttpRequest& request) {
  const auto host = request.headers.find("host");
  const bool is_ours = host != request.headers.end() && is_own_host(host->second);
  if (is_ours && has_token(request)) {
    HttpResponse response = route(request);
    response.is_trusted = true;
    return response;
  }
  if (is_ours) {
    // The page itself contains nothing of a recording. It keeps the token where only it can read it
    // and removes it from its address, so a reload requests the page without a token.
    if (request.path == "/" && !request.parameters.contains("token"))
      return {200, "text/html; charset=utf-8", page_, {}, false};
    if (std::optional<HttpResponse> followed = follow_link(request)) return *std::move(followed);
  }
  return {403,
          kPlainText,
          "The token is missing or wrong: open the URL that gpumemprof view printed.",
          {},
          false};
}

HttpResponse ViewRequests::answer(const HttpRequest& request) {
  const double before = cpu_milliseconds();
  HttpResponse response = respond(request);
  const std::vector<std::pair<std::string, std::string>> more = std::move(response.headers);
  response.headers = {{"Content-Security-Policy", policy_},
                      {"X-Content-Type-Options", "nosniff"},
                      {"X-Frame-Options", "DENY"},
                      {"Referrer-Policy", "no-referrer"},
                      {"Cross-Origin-Resource-Policy", "same-origin"},
                      {"Cross-Origin-Opener-Policy", "same-origin"},
                      {"Cache-Control", "no-store"}};
  // What the answer cost, for whoever measures: a wall clock also shows what else the machine does.
  if (response.is_trusted)
    response.headers.emplace_back("Server-Timing",
                                  fmt::format("cpu;dur={:.3f}", cpu_milliseconds() - before));
  response.headers.insert(response.headers.end(), more.begin(), more.end());
  return response;
}

HttpResponse ViewRequests::route(const HttpRequest& request) {
  constexpr std::string_view kApi = "/api/";
  if (request.path == "/") return {200, "text/html; charset=utf-8", page_, {}, false};
  if (!request.path.starts_with(kApi)) return {404, kPlainText, "Not found.", {}, false};
  if (request.path == "/api/state") return {200, "application/json", view_.state_json(), {}, false};
  const Result<view::Question> question =
      view::read_question(request.path.substr(kApi.size()), request.parameters);
  if (!question) return refused(question.error());
  const std::shared_ptr<const View> view = view_.view(generation_of(request));
  // Who can wait says so: a script that asks once gets the answer, however long it takes.
  if (request.parameters.contains("waits") && view->takes_long(question.value()))
    return route_long(request, view, question.value());
  const Result<std::string> answer = view->answer(question.value());
  if (!answer) return refused(answer.error());
  return {200, "application/json", answer.value(), {}, false};
}

HttpResponse ViewRequests::route_long(const HttpRequest& request,
                                      const std::shared_ptr<const View>& view,
                                      const view::Question& question) {
  // Short enough for a bar that moves, long enough to be no load.
  constexpr auto kMost = std::chrono::milliseconds(400);
  const std::string name =
      std::to_string(generation_of(request).value_or(0)) + " " + view::question_text(question);
  const LongAnswers::Reply reply = long_answers_.ask(
      name, [view, question](LongWork& work) { return view->answer(question, &work); }, kMost);
  if (!reply.answer) {
    const LongWork::Progress& at = reply.progress;
    return {202,
            "application/json",
            view::working_json(at.what, at.done, at.total, at.so_far),
            {},
            false};
  }
  if (!*reply.answer) return refused(reply.answer->error());
  return {200, "application/json", reply.answer->value(), {}, false};
}

std::string random_token() {
  std::random_device random;
  std::string token;
  for (int part = 0; part < 4; ++part) token += fmt::format("{:08x}", random());
  return token;
}

}  // namespace gpumemprof::cli
