// Requests are parsed as sent, or rejected.
#include "cli/http/http_request.h"

#include <gtest/gtest.h>

#include <vector>

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

TEST(ParseRequest, what_two_readers_could_understand_in_two_ways_is_refused) {
  for (const char* headers :
       {"Content-Length: 5\r\nContent-Length: 0", "Content-Length : 5", "A: b\r\n c: d",
        "A: b\nTransfer-Encoding: chunked", "A: b\rc: d", ": b", "A\tB: c"}) {
    EXPECT_EQ(parse_request(std::string("GET / HTTP/1.1\r\n") + headers).status, 400) << headers;
  }
  EXPECT_EQ(parse_request("GET /a b HTTP/1.1").status, 400);
  EXPECT_EQ(parse_request("GET / HTTP/1.1\nContent-Length:5").status, 400);
  EXPECT_EQ(parse_request("GET /a\nb HTTP/1.1").status, 400);
  EXPECT_EQ(parse_request("GET / HTTP/1.1\r\nContent-Length: 0").status, 200);
}

TEST(ParseRequest, a_header_given_again_is_a_list) {
  const ParsedRequest parsed = parse_request("GET / HTTP/1.1\r\nHost: one\r\nhost: other");
  ASSERT_EQ(parsed.status, 200);
  EXPECT_EQ(parsed.request.headers.at("host"), "one,other");
}

TEST(HeadBuffer, heads_are_the_same_however_the_bytes_arrive) {
  const std::string_view bytes = "GET /a HTTP/1.1\r\nA: b\r\n\r\nGET /b HTTP/1.1\r\n\r\nGET /c";
  for (std::size_t piece = 1; piece <= bytes.size(); ++piece) {
    HeadBuffer buffer;
    std::vector<std::string> heads;
    for (std::size_t start = 0; start < bytes.size(); start += piece) {
      buffer.append(bytes.substr(start, piece));
      while (const std::optional<std::string> head = buffer.take()) heads.push_back(*head);
    }
    EXPECT_EQ(heads, (std::vector<std::string>{"GET /a HTTP/1.1\r\nA: b", "GET /b HTTP/1.1"}));
    EXPECT_FALSE(buffer.is_too_long());
  }
}

TEST(HeadBuffer, a_head_without_end_is_too_long_at_some_point) {
  HeadBuffer buffer;
  buffer.append(std::string(100'000, 'x'));
  EXPECT_FALSE(buffer.take());
  EXPECT_TRUE(buffer.is_too_long());
}

}  // namespace
}  // namespace gpumemprof::cli
