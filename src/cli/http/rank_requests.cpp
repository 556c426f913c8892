#include "cli/http/rank_requests.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "report/view/view_json.h"

namespace gpumemprof::cli {
namespace {

constexpr std::string_view kRankPath = "/rank/";

// The same request for another path.
HttpRequest moved(const HttpRequest& request, std::string path) {
  HttpRequest other = request;
  other.path = std::move(path);
  return other;
}

std::optional<std::size_t> rank_number(std::string_view text) {
  std::size_t number = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failed != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace

RankRequests::RankRequests(const RankPages& pages, std::string page, std::string viewer_page,
                           std::string token, Open open)
    : pages_(pages),
      viewer_page_(std::move(viewer_page)),
      token_(std::move(token)),
      open_(std::move(open)),
      nothing_({}),
      front_(nothing_, std::move(page), token_),
      viewer_(nothing_, viewer_page_, token_) {}

HttpResponse RankRequests::answer(const HttpRequest& request) {
  if (request.path.starts_with(kRankPath))
    return answer_rank(request, std::string_view(request.path).substr(kRankPath.size()));
  if (request.path != "/api/ranks") return front_.answer(request);
  HttpResponse response = front_.answer(moved(request, "/api/state"));
  if (!response.is_trusted) return response;
  response.content_type = "application/octet-stream";
  response.body = pages_.report;
  return response;
}

// `path`: "3/", "3/api/meta".
HttpResponse RankRequests::answer_rank(const HttpRequest& request, std::string_view path) {
  const std::size_t slash = path.find('/');
  const std::optional<std::size_t> number = rank_number(path.substr(0, slash));
  if (slash == std::string_view::npos || !number || *number >= pages_.recordings.size())
    return viewer_.answer(moved(request, "/nothing"));
  const std::string rest(path.substr(slash));
  if (!rest.starts_with("/api/")) return viewer_.answer(moved(request, rest));
  // Nobody else makes us read a recording.
  HttpResponse checked = viewer_.answer(moved(request, "/api/state"));
  if (!checked.is_trusted) return checked;
  const Result<std::shared_ptr<OpenRank>> rank = open_rank(*number);
  if (rank) return rank.value()->requests->answer(moved(request, rest));
  checked.status = 400;
  checked.body = view::error_json(rank.error().sentence());
  return checked;
}

std::shared_ptr<RankRequests::OpenRank> RankRequests::find_open(std::size_t number) {
  const std::scoped_lock lock(mutex_);
  const auto found =
      std::ranges::find_if(opened_, [&](const auto& rank) { return rank->number == number; });
  if (found == opened_.end()) return nullptr;
  opened_.splice(opened_.begin(), opened_, found);
  return opened_.front();
}

Result<std::shared_ptr<RankRequests::OpenRank>> RankRequests::open_rank(std::size_t number) {
  if (std::shared_ptr<OpenRank> open = find_open(number)) return open;
  const std::scoped_lock reading(opening_);
  // Another request may have opened it meanwhile.
  if (std::shared_ptr<OpenRank> open = find_open(number)) return open;
  const std::string& recording = pages_.recordings[number];
  if (recording.empty()) {
    return Error{ErrorCode::bad_input, "only the summary of this rank is here", "",
                 "copy its recording next to the summary"};
  }
  Result<std::unique_ptr<GrowingView>> view = open_(recording);
  if (!view) return view.error();
  auto rank = std::make_shared<OpenRank>();
  rank->number = number;
  rank->view = std::move(view).value();
  rank->requests = std::make_unique<ViewRequests>(*rank->view, viewer_page_, token_);
  rank->view->start();
  std::shared_ptr<OpenRank> closed;  // destroyed without the lock
  const std::scoped_lock lock(mutex_);
  opened_.push_front(rank);
  if (opened_.size() > kMostOpen) {
    closed = std::move(opened_.back());
    opened_.pop_back();
  }
  return rank;
}

}  // namespace gpumemprof::cli
