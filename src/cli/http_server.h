// HttpServer: answers GET requests of one machine's own browsers, on 127.0.0.1 and nowhere else.
//
// It reads little (a request line and headers, bounded), keeps no files, and never dies of a bad
// request: whatever does not read as a GET is answered with an error and the connection closed.
//
// Each connection has a thread; there are at most kMostConnections. A connection is a stranger's
// until the handler trusts a request of it. Strangers have little time, and where there is no room
// for a new connection the oldest of theirs is closed, so that nobody without the token can keep
// the owner out. Nobody waits for a client that does not read: not a stop, and no thread for long.
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
#include "cli/http_request.h"

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

  // Port 0: any free one. An Error where it cannot be had.
  static Result<std::unique_ptr<HttpServer>> listen(std::uint16_t port, Handler handler);
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  ~HttpServer();

  [[nodiscard]] std::uint16_t port() const { return port_; }
  // Returns once stop() was called, from any thread.
  void serve();
  // Closes all connections; their threads end when the handler returns, and the destructor waits
  // for them.
  void stop();
  // Whether all of them ended in that time.
  bool wait_for_connections(std::chrono::milliseconds most);

 private:
  struct Connection {
    int socket = -1;
    bool is_trusted = false;
  };
  using Place = std::list<Connection>::iterator;

  HttpServer(int socket, std::uint16_t port, Handler handler);
  // Without a descriptor left the connection that waits is taken and closed.
  void refuse_one();
  void start(int socket);
  // Makes room for one more; false where all connections are the owner's.
  bool make_room();
  void converse(Place connection);
  void trust(Place connection);
  // Nothing: closed, too slow, too long, or the server stops.
  std::optional<std::string> read_head(const Connection& connection, HeadBuffer& buffer) const;
  [[nodiscard]] bool send_all(int socket, std::string_view bytes) const;
  [[nodiscard]] HttpResponse answer(const ParsedRequest& parsed) const;

  int socket_;
  int spare_;  // a descriptor to let go of where there are no others
  std::uint16_t port_;
  Handler handler_;
  std::atomic<bool> is_stopping_ = false;
  std::mutex mutex_;
  std::condition_variable one_ended_;
  std::list<Connection> connections_;  // the oldest first
};

}  // namespace gpumemprof::cli
