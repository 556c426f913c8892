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

TEST(ParseRequest, path_and_parameters_are_decoded) {
  const ParsedRequest parsed =
      parse_request("GET /api/tile?by=line&words=a%20b+c&x HTTP/1.1\r\nHost: localhost:1");
  ASSERT_EQ(parsed.status, 200);
  EXPECT_EQ(parsed.request.path, "/api/tile");
  EXPECT_EQ(parsed.request.parameters.at("words"), "a b c");
  EXPECT_EQ(parsed.request.parameters.at("x"), "");
  EXPECT_EQ(parsed.request.headers.at("host"), "localhost:1");
}

TEST(ParseRequest, what_is_no_get_is_refused) {
  EXPECT_EQ(parse_request("").status, 400);
  EXPECT_EQ(parse_request("GET").status, 400);
  EXPECT_EQ(parse_request("GET /").status, 400);
  EXPECT_EQ(parse_request("GET / HTTP/3").status, 400);
  EXPECT_EQ(parse_request("GET http://elsewhere/ HTTP/1.1").status, 400);
  EXPECT_EQ(parse_request("POST / HTTP/1.1").status, 405);
  EXPECT_EQ(parse_request("GET / HTTP/1.1\r\nno colon").status, 400);
  EXPECT_EQ(parse_request("GET / HTTP/1.1\r\nContent-Length: 5").status, 400);
  EXPECT_EQ(parse_request("GET / HTTP/1.1\r\nTransfer-Encoding: chunked").status, 400);
  EXPECT_EQ(parse_request(std::string("\0\xff garbage \r\n", 14)).status, 400);
}

TEST(ParseRequest, broken_escapes_stay_as_they_are) {
  const ParsedRequest parsed = parse_request("GET /%2?a=%zz&=&&b%3D=1 HTTP/1.1");
  ASSERT_EQ(parsed.status, 200);
  EXPECT_EQ(parsed.request.path, "/%2");
  EXPECT_EQ(parsed.request.parameters.at("a"), "%zz");
  EXPECT_EQ(parsed.request.parameters.at("b="), "1");
}

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
