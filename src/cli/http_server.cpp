#include "cli/http_server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <thread>

namespace gpumemprof::cli {
namespace {

constexpr int kMostConnections = 64;
constexpr int kPollMs = 100;
constexpr auto kPatience = std::chrono::seconds(30);  // with a silent connection

std::string_view status_text(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    default:
      return "Internal Server Error";
  }
}

bool send_all(int connection, std::string_view bytes) {
  while (!bytes.empty()) {
    pollfd ready{connection, POLLOUT, 0};
    if (poll(&ready, 1, 10'000) <= 0) return false;
    const ssize_t sent = send(connection, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0 && errno != EINTR) return false;
    if (sent > 0) bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

std::string head_of(const HttpResponse& response, bool keeps_open) {
  std::string head =
      fmt::format("HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: {}\r\n",
                  response.status, status_text(response.status), response.content_type,
                  response.body.size(), keeps_open ? "keep-alive" : "close");
  for (const auto& [name, value] : response.headers) head += fmt::format("{}: {}\r\n", name, value);
  return head + "\r\n";
}

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::listen(std::uint16_t port, Handler handler) {
  const int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const auto failed = [&](std::string message, std::string hint) {
    if (made >= 0) close(made);
    return Error{ErrorCode::environment, std::move(message), "", std::move(hint)};
  };
  if (made < 0) return failed(std::string("no socket: ") + std::strerror(errno), "try again");
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
  if (::listen(made, kMostConnections) != 0 || getsockname(made, any_address, &length) != 0)
    return failed(std::string("cannot listen: ") + std::strerror(errno), "try again");
  return std::unique_ptr<HttpServer>(
      new HttpServer(made, ntohs(address.sin_port), std::move(handler)));
}

HttpServer::HttpServer(int socket, std::uint16_t port, Handler handler)
    : socket_(socket), port_(port), handler_(std::move(handler)) {}

HttpServer::~HttpServer() { close(socket_); }

void HttpServer::stop() { is_stopping_ = true; }

void HttpServer::serve() {
  while (!is_stopping_) {
    pollfd ready{socket_, POLLIN, 0};
    if (poll(&ready, 1, kPollMs) <= 0) continue;
    const int connection = accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection < 0) continue;
    if (connections_ >= kMostConnections) {
      close(connection);
      continue;
    }
    const int yes = 1;
    setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    ++connections_;
    std::thread([this, connection] {
      converse(connection);
      close(connection);
      --connections_;
    }).detach();
  }
  while (connections_ > 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

void HttpServer::converse(int connection) {
  HeadBuffer buffer;
  while (!is_stopping_) {
    const std::optional<std::string> head = read_head(connection, buffer);
    if (!head) return;
    const ParsedRequest parsed = parse_request(*head);
    const HttpResponse response = answer(parsed);
    const auto wish = parsed.request.headers.find("connection");
    const bool keeps_open = parsed.status == 200 && !is_stopping_ &&
                            (wish == parsed.request.headers.end() || wish->second != "close");
    if (!send_all(connection, head_of(response, keeps_open)) ||
        !send_all(connection, response.body) || !keeps_open)
      return;
  }
}

std::optional<std::string> HttpServer::read_head(int connection, HeadBuffer& buffer) const {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  for (;;) {
    if (std::optional<std::string> head = buffer.take()) return head;
    if (buffer.is_too_long()) {
      send_all(connection, head_of({400, "text/plain", "", {}}, false));
      return std::nullopt;
    }
    pollfd ready{connection, POLLIN, 0};
    const int polled = poll(&ready, 1, kPollMs);
    if (is_stopping_ || std::chrono::steady_clock::now() > deadline) return std::nullopt;
    if (polled <= 0) continue;
    char bytes[4096];
    const ssize_t got = recv(connection, bytes, sizeof bytes, 0);
    if (got <= 0) return std::nullopt;
    buffer.append({bytes, static_cast<std::size_t>(got)});
  }
}

HttpResponse HttpServer::answer(const ParsedRequest& parsed) const {
  if (parsed.status != 200)
    return {parsed.status, "text/plain", std::string(status_text(parsed.status)), {}};
  try {
    return handler_(parsed.request);
  } catch (const std::exception& bug) {
    return {500, "text/plain", std::string("this is a bug of ours: ") + bug.what(), {}};
  }
}

}  // namespace gpumemprof::cli
