// HttpServer: answers GET requests of one machine's own browsers, on 127.0.0.1 and nowhere else.
//
// It reads little (a request line and headers, bounded), keeps no files, and never dies of a bad
// request: whatever does not read as a GET is answered with an error and the connection closed.
// Each connection has a thread; there are at most kMostConnections.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/http_request.h"

namespace gpumemprof::cli {

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;
};

class HttpServer {
 public:
  using Handler = std::function<HttpResponse(const HttpRequest&)>;

  // Port 0: any free one. An Error where it cannot be had.
  static Result<std::unique_ptr<HttpServer>> listen(std::uint16_t port, Handler handler);
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  ~HttpServer();

  [[nodiscard]] std::uint16_t port() const { return port_; }
  // Returns once stop() was called, from any thread, and all connections are closed.
  void serve();
  void stop();

 private:
  HttpServer(int socket, std::uint16_t port, Handler handler);
  void converse(int connection);
  // Nothing: closed, too slow, too long, or the server stops.
  std::optional<std::string> read_head(int connection, HeadBuffer& buffer) const;
  [[nodiscard]] HttpResponse answer(const ParsedRequest& parsed) const;

  int socket_;
  std::uint16_t port_;
  Handler handler_;
  std::atomic<bool> is_stopping_ = false;
  std::atomic<int> connections_ = 0;
};

}  // namespace gpumemprof::cli
