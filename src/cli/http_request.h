// HTTP requests as bytes come in: where one ends, and what it says. Nothing here knows of sockets.
//
// Whatever does not read as a plain GET without a body is refused. A request that two readers could
// understand in two ways is refused too: a body that one of them does not see would be taken for
// the next request.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace gpumemprof::cli {

struct HttpRequest {
  std::string path;  // decoded, with its leading slash
  std::map<std::string, std::string> parameters;
  std::map<std::string, std::string> headers;  // names in lower case
  bool is_from_same_user = false;              // known of the connection, not told by the client

  bool operator==(const HttpRequest&) const = default;
};

// Reads the head of a request, without the blank line that ends it. On failure the status to answer
// with, and no request.
struct ParsedRequest {
  int status = 200;
  HttpRequest request;
};
ParsedRequest parse_request(std::string_view head);

// Cuts what a connection sends into heads of requests.
class HeadBuffer {
 public:
  void append(std::string_view bytes) { bytes_ += bytes; }
  // The next head, once its blank line is there.
  std::optional<std::string> take();
  // No blank line in more bytes than any request of ours needs.
  [[nodiscard]] bool is_too_long() const { return bytes_.size() > kMostHeadBytes; }

 private:
  static constexpr std::size_t kMostHeadBytes = std::size_t{16} * 1024;
  std::string bytes_;
};

}  // namespace gpumemprof::cli
