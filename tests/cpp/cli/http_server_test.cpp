// The server answers its own browser and outlives everything else.
#include "cli/http_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "base/error.h"

namespace gpumemprof::cli {
namespace {

class RunningServer : public ::testing::Test {
 protected:
  RunningServer() {
    Result<std::unique_ptr<HttpServer>> made =
        HttpServer::listen(0, [](const HttpRequest& request) -> HttpResponse {
          if (request.path == "/throws") throw InternalError("a broken invariant");
          return {200, "text/plain", "hello " + request.path, {}};
        });
    server_ = std::move(made).value();
    thread_ = std::thread([this] { server_->serve(); });
  }
  void TearDown() override {
    server_->stop();
    thread_.join();
  }

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
