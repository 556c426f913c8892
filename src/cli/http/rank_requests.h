// Answers a browser that looks at all ranks of a job: with the page about them, and with the viewer
// for the ranks whose recordings it opens.
//
// A rank's viewer is at /rank/N/, where N is the place of its recording in RankPages. Recordings
// are opened when they are asked for, by whoever has the token, and only the last few stay open.
#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "base/result.h"
#include "cli/cli.h"
#include "cli/http/http_server.h"
#include "cli/http/view_requests.h"
#include "session/growing_view.h"

namespace gpumemprof::cli {

class RankRequests {
 public:
  static constexpr std::size_t kMostOpen = 4;
  using Open = std::function<Result<std::unique_ptr<GrowingView>>(const std::string& recording)>;

  // `pages` must outlive this. `page` is the page about ranks, `viewer_page` the viewer, both as
  // shipped.
  RankRequests(const RankPages& pages, std::string page, std::string viewer_page, std::string token,
               Open open);

  [[nodiscard]] HttpResponse answer(const HttpRequest& request);
  // As ViewRequests::link_for_browser().
  std::string link_for_browser() { return front_.link_for_browser(); }

 private:
  struct OpenRank {
    std::size_t number = 0;
    std::unique_ptr<GrowingView> view;
    std::unique_ptr<ViewRequests> requests;
  };
  [[nodiscard]] HttpResponse answer_rank(const HttpRequest& request, std::string_view path);
  Result<std::shared_ptr<OpenRank>> open_rank(std::size_t number);
  std::shared_ptr<OpenRank> find_open(std::size_t number);

  const RankPages& pages_;
  std::string viewer_page_;
  std::string token_;
  Open open_;
  // Of no recording: they check who asks, and send the pages, which hold nothing of a recording.
  GrowingView nothing_;
  ViewRequests front_;
  ViewRequests viewer_;
  std::mutex opening_;                           // held while a recording is read
  std::mutex mutex_;                             // guards opened_
  std::list<std::shared_ptr<OpenRank>> opened_;  // the last used first
};

}  // namespace gpumemprof::cli
