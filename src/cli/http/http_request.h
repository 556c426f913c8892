// HTTP requests as bytes arrive: where one ends, and what it says. Nothing here deals with sockets.
//
// Anything but a plain GET without a body is refused. A request that two readers could interpret
// differently is refused too: a body that one of them does not see would be read as the next
// request.
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
  bool is_from_same_user = false;              // known from the connection, not from the client

  bool operator==(const HttpRequest&) const = default;
};

// Reads the head of a request, without the blank line that ends it. On failure returns the status
// to answer with, and no request.
struct ParsedRequest {
  int status = 200;
  HttpRequest request;
};
ParsedRequest parse_request(std::string_view head);

// Splits what a connection sends into request heads.
class HeadBuffer {
 public:
  void append(std::string_view bytes) { bytes_ += bytes; }
  // The next head, once its blank line has arrived.
  std::optional<std::string> take();
  // No blank line within more bytes than any of our requests needs.
  [[nodiscard]] bool is_too_long() const { return bytes_.size() > kMostHeadBytes; }

 private:
  static constexpr std::size_t kMostHeadBytes = std::size_t{16} * 1024;
  std::string bytes_;
};

}  // namespace gpumemprof::cli
