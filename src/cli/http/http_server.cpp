#include "cli/http/http_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <fstream>
#include <sstream>
#include <system_error>
#include <thread>

namespace gpumemprof::cli {
namespace {

constexpr int kPollMs = 100;
// For a silent connection, and for a client that does not read.
constexpr auto kPatience = std::chrono::seconds(30);
constexpr auto kPatienceWithStrangers = std::chrono::seconds(5);

std::string_view status_text(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 202:
      return "Accepted";
    case 303:
      return "See Other";
    case 400:
      return "Bad Request";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 410:
      return "Gone";
    default:
      return "Internal Server Error";
  }
}

// For whoever reads what an unusual client was told.
std::string refusal_text(int status) {
  return status == 405 ? "Only GET is answered here: open the URL that gpumemprof printed."
                       : "This request cannot be read: open the URL that gpumemprof printed.";
}

std::string head_of(const HttpResponse& response, bool keeps_open) {
  std::string head =
      fmt::format("HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: {}\r\n",
                  response.status, status_text(response.status), response.content_type,
                  response.body.size(), keeps_open ? "keep-alive" : "close");
  for (const auto& [name, value] : response.headers) head += fmt::format("{}: {}\r\n", name, value);
  return head + "\r\n";
}

// Whether the other end of a connection on this machine is a process of our own user: the system
// lists the owner of every socket. False where it does not say.
bool is_same_user(int socket) {
  sockaddr_in peer{};
  socklen_t length = sizeof peer;
  if (getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &length) != 0) return false;
  const std::string address =
      fmt::format("{:08X}:{:04X}", peer.sin_addr.s_addr, ntohs(peer.sin_port));
  constexpr std::string_view kEstablished = "01";
  std::ifstream table("/proc/net/tcp");
  std::string line;
  // "  0: 0100007F:9C40 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1000 …"
  while (std::getline(table, line)) {
    std::istringstream fields(line);
    std::string number;
    std::string local;
    std::string remote;
    std::string state;
    std::string queues;
    std::string timer;
    std::string timeouts;
    uid_t user = 0;
    fields >> number >> local >> remote >> state >> queues >> timer >> timeouts >> user;
    if (fields && local == address && state == kEstablished) return user == getuid();
  }
  return false;
}

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::listen(std::uint16_t port, Handler handler) {
  const int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const auto failed = [&](std::string message, std::string hint) {
    if (made >= 0) close(made);
    return Error{ErrorCode::environment, std::move(message), "", std::move(hint)};
  };
  if (made < 0)
    return failed(std::string("cannot create a socket: ") + std::strerror(errno), "try again");
  const int yes = 1;
  setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* any_address = reinterpret_cast<sockaddr*>(&address);
  socklen_t length = sizeof address;
  if (bind(made, any_address, length) != 0) {
    if (errno == EADDRINUSE)
      return failed(fmt::format("port {} is in use", port), "leave --port out to take a free one");
    return failed(fmt::format("port {} cannot be used: {}", port, std::strerror(errno)),
                  "leave --port out to take a free one");
  }
  if (::listen(made, static_cast<int>(kMostConnections)) != 0 ||
      getsockname(made, any_address, &length) != 0)
    return failed(std::string("cannot listen: ") + std::strerror(errno), "try again");
  return std::unique_ptr<HttpServer>(
      new HttpServer(made, ntohs(address.sin_port), std::move(handler)));
}

HttpServer::HttpServer(int socket, std::uint16_t port, Handler handler)
    : socket_(socket),
      spare_(open("/dev/null", O_RDONLY | O_CLOEXEC)),
      port_(port),
      handler_(std::move(handler)) {}

HttpServer::~HttpServer() {
  {
    std::unique_lock lock(mutex_);
    one_ended_.wait(lock, [this] { return connections_.empty(); });
  }
  close(socket_);
  if (spare_ >= 0) close(spare_);
}

void HttpServer::stop() {
  is_stopping_ = true;
  const std::lock_guard lock(mutex_);
  for (const Connection& connection : connections_) shutdown(connection.socket, SHUT_RDWR);
}

bool HttpServer::wait_for_connections(std::chrono::milliseconds most) {
  std::unique_lock lock(mutex_);
  return one_ended_.wait_for(lock, most, [this] { return connections_.empty(); });
}

void HttpServer::serve() {
  while (!is_stopping_) {
    pollfd ready{socket_, POLLIN, 0};
    if (poll(&ready, 1, kPollMs) <= 0) continue;
    const int connection = accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection >= 0) {
      start(connection);
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
      refuse_one();
      // The pending connection would wake us again immediately, over and over.
      std::this_thread::sleep_for(std::chrono::milliseconds(kPollMs));
    }
  }
}

void HttpServer::refuse_one() {
  make_room();
  if (spare_ < 0) return;
  close(spare_);
  const int refused = accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC);
  if (refused >= 0) close(refused);
  spare_ = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

bool HttpServer::make_room() {
  std::unique_lock lock(mutex_);
  const auto stranger =
      std::find_if(connections_.begin(), connections_.end(),
                   [](const Connection& connection) { return !connection.is_trusted; });
  if (stranger == connections_.end()) return false;
  shutdown(stranger->socket, SHUT_RDWR);
  const std::size_t before = connections_.size();
  return one_ended_.wait_for(lock, std::chrono::milliseconds(kPollMs),
                             [&] { return connections_.size() < before; });
}

void HttpServer::start(int socket) {
  const int yes = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  std::size_t count = 0;
  {
    const std::lock_guard lock(mutex_);
    count = connections_.size();
  }
  if (count >= kMostConnections && !make_room()) {
    close(socket);
    return;
  }
  Place place;
  {
    const std::lock_guard lock(mutex_);
    place = connections_.insert(connections_.end(), {socket, false});
  }
  const auto end = [this, place] {
    const std::lock_guard lock(mutex_);
    close(place->socket);
    connections_.erase(place);
    one_ended_.notify_all();
  };
  try {
    std::thread([this, place, end] {
      converse(place);
      end();
    }).detach();
  } catch (const std::system_error&) {  // no more threads: this client may try again
    end();
  }
}

void HttpServer::trust(Place connection) {
  const std::lock_guard lock(mutex_);
  connection->is_trusted = true;
}

void HttpServer::converse(Place connection) {
  HeadBuffer buffer;
  std::optional<bool> is_own;  // looked up once, and only for clients that send a request
  while (!is_stopping_) {
    const std::optional<std::string> head = read_head(*connection, buffer);
    if (!head) return;
    ParsedRequest parsed = parse_request(*head);
    if (!is_own && parsed.status == 200) is_own = is_same_user(connection->socket);
    parsed.request.is_from_same_user = is_own.value_or(false);
    const HttpResponse response = answer(parsed);
    if (response.is_trusted) trust(connection);
    const auto wish = parsed.request.headers.find("connection");
    const bool keeps_open = parsed.status == 200 && !is_stopping_ &&
                            (wish == parsed.request.headers.end() || wish->second != "close");
    if (!send_all(connection->socket, head_of(response, keeps_open)) ||
        !send_all(connection->socket, response.body) || !keeps_open)
      return;
  }
}

// Never blocks inside send(): a client that does not read would occupy the thread forever.
bool HttpServer::send_all(int socket, std::string_view bytes) const {
  auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!bytes.empty()) {
    const ssize_t sent = send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
      deadline = std::chrono::steady_clock::now() + kPatience;
      continue;
    }
    if (errno != EINTR && errno != EAGAIN && errno != EWOULDBLOCK) return false;
    if (is_stopping_ || std::chrono::steady_clock::now() > deadline) return false;
    pollfd ready{socket, POLLOUT, 0};
    poll(&ready, 1, kPollMs);
  }
  return true;
}

std::optional<std::string> HttpServer::read_head(const Connection& connection,
                                                 HeadBuffer& buffer) const {
  const auto deadline = std::chrono::steady_clock::now() +
                        (connection.is_trusted ? kPatience : kPatienceWithStrangers);
  for (;;) {
    if (std::optional<std::string> head = buffer.take()) return head;
    if (buffer.is_too_long()) {
      const HttpResponse refused{400, "text/plain", refusal_text(400), {}, false};
      if (send_all(connection.socket, head_of(refused, false)))
        (void)send_all(connection.socket, refused.body);
      return std::nullopt;
    }
    pollfd ready{connection.socket, POLLIN, 0};
    const int polled = poll(&ready, 1, kPollMs);
    if (is_stopping_ || std::chrono::steady_clock::now() > deadline) return std::nullopt;
    if (polled <= 0) continue;
    char bytes[4096];
    const ssize_t got = recv(connection.socket, bytes, sizeof bytes, MSG_DONTWAIT);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got <= 0) return std::nullopt;
    buffer.append({bytes, static_cast<std::size_t>(got)});
  }
}

HttpResponse HttpServer::answer(const ParsedRequest& parsed) const {
  if (parsed.status != 200)
    return {parsed.status, "text/plain", refusal_text(parsed.status), {}, false};
  try {
    return handler_(parsed.request);
  } catch (const std::exception& bug) {
    return {500, "text/plain", std::string("internal error: ") + bug.what(), {}, false};
  }
}

}  // namespace gpumemprof::cli
