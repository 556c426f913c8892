// Writes a View to a file: the viewer's page with enough of the answers in it to be viewed without
// a server, within a size limit.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "session/view.h"

namespace gpumemprof {

// A page holds at most this many devices of each recording: create its View with this.
inline constexpr std::size_t kMostHtmlDevices = 16;

struct ViewHtmlOptions {
  std::size_t most_bytes = 9'500'000;
};

struct ViewHtml {
  std::string html;
  std::vector<std::string> left_out;  // sentences, also on the page
};

// `page` is the viewer as it ships.
ViewHtml write_view_html(const View& view, std::string_view page,
                         const ViewHtmlOptions& options = {});

}  // namespace gpumemprof
