// HttpServer: answers GET requests from browsers on this machine, on 127.0.0.1 only.
//
// It reads little (a request line and headers, bounded), serves no files, and survives any bad
// request: anything that is not a GET is answered with an error and the connection is closed.
//
// Each connection has a thread; there are at most kMostConnections. A connection is untrusted until
// the handler trusts one of its requests. Untrusted clients get little time, and where there is no
// room for a new connection the oldest untrusted one is closed, so that nobody without the token
// can lock out the owner. Nothing waits for a client that does not read: stop() does not, and no
// thread does for long.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/http/http_request.h"

namespace gpumemprof::cli {

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;
  bool is_trusted = false;  // the request came from the owner
};

class HttpServer {
 public:
  using Handler = std::function<HttpResponse(const HttpRequest&)>;

  static constexpr std::size_t kMostConnections = 64;

  // Port 0: any free port. An Error where the port cannot be obtained.
  static Result<std::unique_ptr<HttpServer>> listen(std::uint16_t port, Handler handler);
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  ~HttpServer();

  [[nodiscard]] std::uint16_t port() const { return port_; }
  // Returns once stop() has been called, from any thread.
  void serve();
  // Closes all connections; their threads end when the handler returns, and the destructor waits
  // for them.
  void stop();
  // Whether all of them ended within that time.
  bool wait_for_connections(std::chrono::milliseconds most);

 private:
  struct Connection {
    int socket = -1;
    bool is_trusted = false;
  };
  using Place = std::list<Connection>::iterator;

  HttpServer(int socket, std::uint16_t port, Handler handler);
  // When out of descriptors, accepts the waiting connection and closes it.
  void refuse_one();
  void start(int socket);
  // Makes room for one more; false where all connections are the owner's.
  bool make_room();
  void converse(Place connection);
  void trust(Place connection);
  // Nothing: closed, too slow, too long, or the server is stopping.
  std::optional<std::string> read_head(const Connection& connection, HeadBuffer& buffer) const;
  [[nodiscard]] bool send_all(int socket, std::string_view bytes) const;
  [[nodiscard]] HttpResponse answer(const ParsedRequest& parsed) const;

  int socket_;
  int spare_;  // a descriptor to close when no others are left
  std::uint16_t port_;
  Handler handler_;
  std::atomic<bool> is_stopping_ = false;
  std::mutex mutex_;
  std::condition_variable one_ended_;
  std::list<Connection> connections_;  // the oldest first
};

}  // namespace gpumemprof::cli
