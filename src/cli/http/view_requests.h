// Checks what the viewer's page asks over HTTP, and answers from a GrowingView.
#pragma once

#include <atomic>
#include <optional>
#include <string>

#include "cli/http/http_server.h"
#include "cli/http/long_answers.h"
#include "session/growing_view.h"

namespace gpumemprof::cli {

class ViewRequests {
 public:
  // `page` is the viewer as shipped; the view must outlive this.
  ViewRequests(const GrowingView& view, std::string page, std::string token);

  // Nothing of a recording is sent without the token, and nothing at all to a page that reached us
  // under another name.
  [[nodiscard]] HttpResponse answer(const HttpRequest& request);
  // The path that gives a browser the token, for use on a command line. Call before any request is
  // answered.
  std::string link_for_browser();

 private:
  [[nodiscard]] bool has_token(const HttpRequest& request) const;
  [[nodiscard]] HttpResponse respond(const HttpRequest& request);
  std::optional<HttpResponse> follow_link(const HttpRequest& request);
  [[nodiscard]] HttpResponse route(const HttpRequest& request);
  [[nodiscard]] HttpResponse route_long(const HttpRequest& request,
                                        const std::shared_ptr<const View>& view,
                                        const view::Question& question);

  const GrowingView& view_;
  std::string page_;
  std::string policy_;
  std::string token_;
  std::string link_;
  std::atomic<bool> is_link_used_ = false;
  LongAnswers long_answers_;  // last: it ends before what it answers from is destroyed
};

// 128 random bits as text.
std::string random_token();

}  // namespace gpumemprof::cli
