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

// What mail and chat still take: 5 MB, and a little less.
inline constexpr std::size_t kMostHtmlBytes = 4'900'000;

struct ViewHtmlOptions {
  std::size_t most_bytes = kMostHtmlBytes;
};

struct ViewHtml {
  std::string html;
  std::vector<std::string> left_out;  // sentences, also on the page
};

// `page` is the viewer as it ships. An Error if a long recording can no longer be read.
Result<ViewHtml> write_view_html(const View& view, std::string_view page,
                                 const ViewHtmlOptions& options = {});

}  // namespace gpumemprof
