// The server answers its own browser and survives everything else.
#include "cli/http/http_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>
#include <vector>

#include "base/error.h"

namespace gpumemprof::cli {
namespace {

class RunningServer : public ::testing::Test {
 protected:
  RunningServer() {
    Result<std::unique_ptr<HttpServer>> made =
        HttpServer::listen(0, [](const HttpRequest& request) -> HttpResponse {
          if (request.path == "/throws") throw InternalError("a broken invariant");
          if (request.path == "/large")
            return {200, "text/plain", std::string(std::size_t{64} << 20, 'x'), {}, true};
          const bool is_owner = request.parameters.contains("token");
          const std::string user = request.is_from_same_user ? " from the same user" : "";
          return {200, "text/plain", "hello " + request.path + user, {}, is_owner};
        });
    server_ = std::move(made).value();
    thread_ = std::thread([this] { server_->serve(); });
  }
  void TearDown() override {
    server_->stop();
    thread_.join();
    EXPECT_TRUE(server_->wait_for_connections(kPatience));
  }
  static constexpr std::chrono::seconds kPatience{20};

  [[nodiscard]] int connect_to_it() const {
    const int connection = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(server_->port());
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(connection, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    return connection;
  }
  // Sends, then reads until the server closes.
  [[nodiscard]] std::string exchange(const std::string& bytes) const {
    const int connection = connect_to_it();
    EXPECT_EQ(send(connection, bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
    std::string answer;
    char buffer[1024];
    for (ssize_t got = 0; (got = recv(connection, buffer, sizeof buffer, 0)) > 0;)
      answer.append(buffer, static_cast<std::size_t>(got));
    close(connection);
    return answer;
  }

  std::unique_ptr<HttpServer> server_;
  std::thread thread_;
};

TEST_F(RunningServer, answers_several_requests_on_one_connection) {
  const std::string answer = exchange(
      "GET /a HTTP/1.1\r\nHost: localhost\r\n\r\nGET /b HTTP/1.1\r\nConnection: close\r\n\r\n");
  EXPECT_NE(answer.find("hello /a"), std::string::npos);
  EXPECT_NE(answer.find("hello /b"), std::string::npos);
}

TEST_F(RunningServer, outlives_bad_requests) {
  EXPECT_EQ(exchange("nonsense\r\n\r\n").substr(0, 12), "HTTP/1.1 400");
  EXPECT_EQ(exchange("DELETE / HTTP/1.1\r\n\r\n").substr(0, 12), "HTTP/1.1 405");
  EXPECT_EQ(exchange("GET /" + std::string(30'000, 'x')).substr(0, 12), "HTTP/1.1 400");
  // In a sentence that says what to do.
  for (const char* request : {"nonsense\r\n\r\n", "DELETE / HTTP/1.1\r\n\r\n"})
    EXPECT_TRUE(exchange(request).ends_with(": open the URL that gpumemprof printed.")) << request;
  const int silent = connect_to_it();
  close(silent);
  const std::string bug = exchange("GET /throws HTTP/1.1\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(bug.substr(0, 12), "HTTP/1.1 500");
  EXPECT_NE(exchange("GET /still HTTP/1.1\r\nConnection: close\r\n\r\n").find("hello /still"),
            std::string::npos);
}

TEST_F(RunningServer, a_body_is_never_taken_for_the_next_request) {
  for (const char* header : {"Content-Length: 5", "Content-Length: 5\r\nContent-Length: 0",
                             "Content-Length : 5", "A: b\nContent-Length: 5"}) {
    const std::string answer = exchange(std::string("GET /first HTTP/1.1\r\n") + header +
                                        "\r\n\r\nGET /second HTTP/1.1\r\n\r\n");
    EXPECT_EQ(answer.substr(0, 12), "HTTP/1.1 400") << header;
    EXPECT_EQ(answer.find("hello"), std::string::npos) << header;
  }
}

// TearDown() stops it: a client that does not read a large answer does not delay it.
TEST_F(RunningServer, stops_while_a_client_does_not_read) {
  const int connection = connect_to_it();
  const std::string request = "GET /large HTTP/1.1\r\n\r\n";
  ASSERT_GT(send(connection, request.data(), request.size(), MSG_NOSIGNAL), 0);
  char first = 0;
  ASSERT_EQ(recv(connection, &first, 1, 0), 1);  // the answer is on its way
  server_->stop();
  EXPECT_TRUE(server_->wait_for_connections(kPatience));
  close(connection);
}

TEST_F(RunningServer, silent_strangers_do_not_keep_the_owner_out) {
  std::vector<int> owners;
  const std::string request = "GET /a?token=x HTTP/1.1\r\n\r\n";
  for (int count = 0; count < 3; ++count) {
    owners.push_back(connect_to_it());
    ASSERT_GT(send(owners.back(), request.data(), request.size(), MSG_NOSIGNAL), 0);
    char first = 0;
    ASSERT_EQ(recv(owners.back(), &first, 1, 0), 1);
  }
  std::vector<int> silent;
  for (std::size_t count = 0; count < 2 * HttpServer::kMostConnections; ++count)
    silent.push_back(connect_to_it());
  EXPECT_NE(exchange("GET /in?token=x HTTP/1.1\r\nConnection: close\r\n\r\n").find("hello /in"),
            std::string::npos);
  // The owner's open connections were not the ones closed.
  for (const int owner : owners) {
    EXPECT_GT(send(owner, request.data(), request.size(), MSG_NOSIGNAL), 0);
    std::string answers;
    char bytes[512];
    while (answers.find("HTTP/1.1 200", 12) == std::string::npos) {
      const ssize_t got = recv(owner, bytes, sizeof bytes, 0);
      ASSERT_GT(got, 0);
      answers.append(bytes, static_cast<std::size_t>(got));
    }
    close(owner);
  }
  for (const int connection : silent) close(connection);
}

// Without a free descriptor a connection cannot be accepted, and waking up for it repeatedly would
// keep a core busy: it is closed, and the server keeps running.
TEST_F(RunningServer, goes_on_when_descriptors_run_out) {
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const rlimit few{200, before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &few);
  const int client = socket(AF_INET, SOCK_STREAM, 0);
  std::vector<int> taken;
  for (int descriptor = dup(client); descriptor >= 0; descriptor = dup(client))
    taken.push_back(descriptor);
  ASSERT_EQ(errno, EMFILE);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(server_->port());
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(connect(client, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  const timeval patience{20, 0};
  setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  char byte = 0;
  EXPECT_EQ(recv(client, &byte, 1, 0), 0);  // closed by the server
  for (const int descriptor : taken) close(descriptor);
  close(client);
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_NE(exchange("GET /on HTTP/1.1\r\nConnection: close\r\n\r\n").find("hello /on"),
            std::string::npos);
}

TEST_F(RunningServer, knows_that_a_client_is_of_the_same_user) {
  EXPECT_NE(exchange("GET /me HTTP/1.1\r\nConnection: close\r\n\r\n")
                .find("hello /me from the same user"),
            std::string::npos);
}

TEST_F(RunningServer, a_port_in_use_is_said_with_the_next_step) {
  const Result<std::unique_ptr<HttpServer>> second =
      HttpServer::listen(server_->port(), [](const HttpRequest&) { return HttpResponse(); });
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::environment);
  EXPECT_NE(second.error().message.find("is in use"), std::string::npos);
  EXPECT_NE(second.error().hint.find("--port"), std::string::npos);
}

}  // namespace
}  // namespace gpumemprof::cli
