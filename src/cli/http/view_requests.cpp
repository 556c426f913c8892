#include "cli/http/view_requests.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <random>

#include "report/view/page.h"
#include "report/view/view_json.h"

namespace gpumemprof::cli {
namespace {

constexpr const char* kPlainText = "text/plain; charset=utf-8";

// Reads parameters; remembers the first that is missing or invalid.
class Parameters {
 public:
  explicit Parameters(const HttpRequest& request) : given_(request.parameters) {}

  [[nodiscard]] bool has(const std::string& name) const { return given_.contains(name); }
  [[nodiscard]] std::string text(const std::string& name) const {
    const auto found = given_.find(name);
    return found == given_.end() ? "" : found->second;
  }

  template <typename T>
  T number(const std::string& name, T highest = std::numeric_limits<T>::max()) {
    const std::string given = text(name);
    T value{};
    const auto [end, error] = std::from_chars(given.data(), given.data() + given.size(), value);
    if (error != std::errc() || end != given.data() + given.size() || value > highest) {
      fail(name);
      return T{};
    }
    return value;
  }
  template <typename T>
  T number_or(const std::string& name, T fallback) {
    return has(name) ? number<T>(name) : fallback;
  }

  DeviceName device(const std::string& suffix = "") {
    return {number<std::size_t>("file" + suffix), number<std::size_t>("device" + suffix)};
  }
  GroupBy group_by(const std::string& name = "by") {
    const std::optional<GroupBy> by = group_by_from_name(text(name));
    if (!by) fail(name);
    return by.value_or(GroupBy::line);
  }
  Axis axis() {
    if (text("axis") != "time" && text("axis") != "event") fail("axis");
    return text("axis") == "time" ? Axis::time : Axis::event;
  }
  FlameBy flame_by() {
    const std::optional<FlameBy> by = flame_by_from_name(text("by"));
    if (!by) fail("by");
    return by.value_or(FlameBy::stack);
  }
  void fail(const std::string& name) {
    if (bad_.empty()) bad_ = name;
  }
  [[nodiscard]] const std::string& bad() const { return bad_; }

 private:
  const std::map<std::string, std::string>& given_;
  std::string bad_;
};

AllocationsQuestion allocations_question(Parameters& parameters) {
  constexpr std::size_t kMostRows = 1000;
  AllocationsQuestion question;
  AllocationFilter& filter = question.query.filter;
  filter.words = parameters.text("words");
  filter.min_size_bytes = parameters.number_or<std::uint64_t>("min_size", 0);
  filter.max_size_bytes = parameters.number_or("max_size", filter.max_size_bytes);
  filter.min_lifetime = parameters.number_or<std::int64_t>("min_lifetime", 0);
  filter.max_lifetime = parameters.number_or("max_lifetime", filter.max_lifetime);
  if (parameters.has("live_at")) filter.live_at = parameters.number<Position>("live_at");
  if (parameters.has("from")) filter.from = parameters.number<Position>("from");
  if (parameters.has("to")) filter.to = parameters.number<Position>("to");
  if (parameters.has("group")) {
    question.group_by = parameters.group_by();
    filter.group = parameters.number<std::uint8_t>("group");
  }
  if (parameters.has("order")) {
    const auto order = allocation_order_from_name(parameters.text("order"));
    if (!order) parameters.fail("order");
    question.query.order = order.value_or(AllocationOrder::size);
  }
  question.query.is_descending = parameters.text("direction") != "up";
  question.query.offset = parameters.number_or<std::size_t>("offset", 0);
  if (parameters.has("limit")) question.query.limit = parameters.number("limit", kMostRows);
  return question;
}

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

}  // namespace

ViewRequests::ViewRequests(const View& view, std::string page, std::string token)
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
  HttpResponse response = respond(request);
  const std::vector<std::pair<std::string, std::string>> more = std::move(response.headers);
  response.headers = {{"Content-Security-Policy", policy_},
                      {"X-Content-Type-Options", "nosniff"},
                      {"X-Frame-Options", "DENY"},
                      {"Referrer-Policy", "no-referrer"},
                      {"Cross-Origin-Resource-Policy", "same-origin"},
                      {"Cross-Origin-Opener-Policy", "same-origin"},
                      {"Cache-Control", "no-store"}};
  response.headers.insert(response.headers.end(), more.begin(), more.end());
  return response;
}

HttpResponse ViewRequests::route(const HttpRequest& request) const {
  constexpr std::string_view kApi = "/api/";
  if (request.path == "/") return {200, "text/html; charset=utf-8", page_, {}, false};
  if (!request.path.starts_with(kApi)) return {404, kPlainText, "Not found.", {}, false};
  const Result<std::string> answer = ask(request.path.substr(kApi.size()), request);
  if (answer) return {200, "application/json", answer.value(), {}, false};
  return {400, "application/json", view::error_json(answer.error().sentence()), {}, false};
}

Result<std::string> ViewRequests::ask(const std::string& question,
                                      const HttpRequest& request) const {
  Parameters given(request);
  const auto checked = [&](auto&& answer) -> Result<std::string> {
    if (given.bad().empty()) return answer();
    return Error{ErrorCode::usage, "the parameter '" + given.bad() + "' is missing or wrong", "",
                 "load the page again"};
  };
  if (question == "meta") return view_.meta();
  if (question == "report") {
    const auto file = given.number<std::size_t>("file");
    return checked([&] { return view_.report(file); });
  }
  if (question == "compare") {
    const CompareQuestion compared{given.device(), given.number<Position>("position"),
                                   given.device("2"), given.number<Position>("position2"),
                                   given.group_by()};
    return checked([&] { return view_.compare(compared); });
  }
  const DeviceName device = given.device();
  if (question == "groups") {
    const GroupBy by = given.group_by();
    return checked([&] { return view_.groups(device, by); });
  }
  if (question == "tile") {
    const TileAddress address{given.axis(), given.number<std::uint32_t>("level"),
                              given.number<std::uint32_t>("index")};
    const GroupBy by = given.group_by();
    return checked([&] { return view_.tile(device, address, by); });
  }
  if (question == "overlays") return checked([&] { return view_.overlays(device); });
  if (question == "spans") {
    const TileAddress address{given.axis(), given.number<std::uint32_t>("level"),
                              given.number<std::uint32_t>("index")};
    return checked([&] { return view_.spans(device, address); });
  }
  if (question == "held") {
    const auto position = given.number<Position>("position");
    const GroupBy by = given.group_by();
    return checked([&] { return view_.held(device, position, by); });
  }
  if (question == "allocations") {
    AllocationsQuestion asked = allocations_question(given);
    return checked([&] { return view_.allocations(device, std::move(asked)); });
  }
  if (question == "allocation") {
    const auto row = given.number<std::size_t>("row");
    return checked([&] { return view_.allocation(device, row); });
  }
  if (question == "bands") {
    constexpr std::size_t kMostBands = 20'000;
    const auto from = given.number<Position>("from");
    const auto to = given.number<Position>("to");
    const auto most = given.number<std::size_t>("most", kMostBands);
    return checked([&] { return view_.bands(device, from, to, most); });
  }
  if (question == "moment") {
    const auto position = given.number<Position>("position");
    return checked([&] { return view_.moment(device, position); });
  }
  if (question == "flame") {
    const auto position = given.number<Position>("position");
    const FlameBy by = given.flame_by();
    return checked([&] { return view_.flame(device, position, by); });
  }
  if (question == "segments") {
    const auto position = given.number<Position>("position");
    const GroupBy by = given.group_by();
    return checked([&] { return view_.segments(device, position, by); });
  }
  return Error{ErrorCode::usage, "unknown request", "", "load the page again"};
}

std::string random_token() {
  std::random_device random;
  std::string token;
  for (int part = 0; part < 4; ++part) token += fmt::format("{:08x}", random());
  return token;
}

}  // namespace gpumemprof::cli
