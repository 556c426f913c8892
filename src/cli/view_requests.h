// What the viewer's page asks over HTTP, checked, and answered from a View.
#pragma once

#include <string>

#include "cli/http_server.h"
#include "session/view.h"

namespace gpumemprof::cli {

class ViewRequests {
 public:
  // `page` is the viewer as it ships; the view must outlive this.
  ViewRequests(const View& view, std::string page, std::string token);

  // Nothing is answered without the token, or to a page that reached us under another name.
  [[nodiscard]] HttpResponse answer(const HttpRequest& request) const;

 private:
  [[nodiscard]] bool is_allowed(const HttpRequest& request) const;
  [[nodiscard]] HttpResponse route(const HttpRequest& request) const;
  [[nodiscard]] Result<std::string> ask(const std::string& question,
                                        const HttpRequest& request) const;

  const View& view_;
  std::string page_;
  std::string policy_;
  std::string token_;
};

// 128 random bits as text.
std::string random_token();

}  // namespace gpumemprof::cli
