// What the viewer's page may request, and what nobody may.
#include "cli/http/view_requests.h"

#include <gtest/gtest.h>

#include "session/view.h"

namespace gpumemprof::cli {
namespace {

constexpr const char* kPage =
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'\"><!--data-->";

class Requests : public ::testing::Test {
 protected:
  static const GrowingView& view() {
    static const GrowingView kOpened(
        {Recording::open(GPUMEMPROF_TEST_DATA "/snapshots/oom_fragmented.pickle.gz").value()});
    return kOpened;
  }

  [[nodiscard]] HttpResponse get(const std::string& target,
                                 const std::string& host = "127.0.0.1:99",
                                 const std::string& token = "secret") {
    const std::string joint = target.find('?') == std::string::npos ? "?" : "&";
    const ParsedRequest parsed =
        parse_request("GET " + target + joint + "token=" + token + " HTTP/1.1\r\nHost: " + host);
    EXPECT_EQ(parsed.status, 200);
    return requests_.answer(parsed.request);
  }

  ViewRequests requests_{view(), kPage, "secret"};
};

TEST_F(Requests, nothing_is_answered_without_the_token) {
  for (const char* target :
       {"/", "/api/meta", "/api/tile?file=0", "/nothing", "/open/", "/open/x"}) {
    EXPECT_EQ(get(target, "127.0.0.1:99", "").status, 403);
    EXPECT_EQ(get(target, "127.0.0.1:99", "secreT").status, 403);
    EXPECT_EQ(get(target, "127.0.0.1:99", "secret1").status, 403);
  }
}

// The page removes the token from its address, and is reloaded without it.
TEST_F(Requests, the_page_without_the_token_holds_nothing_of_the_recording) {
  HttpRequest request;
  request.path = "/";
  request.headers["host"] = "127.0.0.1:99";
  const HttpResponse response = requests_.answer(request);
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.body, kPage);
  EXPECT_FALSE(response.is_trusted);
  EXPECT_TRUE(get("/").is_trusted);
  request.headers["host"] = "evil.example";
  EXPECT_EQ(requests_.answer(request).status, 403);
}

// The link is visible in the arguments of the browser's process.
TEST_F(Requests, the_browsers_link_opens_once_and_for_the_owner_alone) {
  HttpRequest request;
  request.path = requests_.link_for_browser();
  request.headers["host"] = "127.0.0.1:99";
  EXPECT_EQ(request.path.find("secret"), std::string::npos);
  EXPECT_EQ(requests_.answer(request).status, 403);  // another user
  request.is_from_same_user = true;
  request.headers["host"] = "evil.example";
  EXPECT_EQ(requests_.answer(request).status, 403);
  request.headers["host"] = "127.0.0.1:99";
  const HttpResponse opened = requests_.answer(request);
  EXPECT_EQ(opened.status, 303);
  EXPECT_EQ(opened.headers.back(),
            (std::pair<std::string, std::string>("Location", "/?token=secret")));
  EXPECT_EQ(requests_.answer(request).status, 403);  // a second time
}

TEST_F(Requests, a_page_that_points_its_own_name_here_is_refused) {
  EXPECT_EQ(get("/api/meta", "evil.example:99").status, 403);
  EXPECT_EQ(get("/api/meta", "127.0.0.1.evil.example").status, 403);
  for (const char* host : {"[::1]evil.com", "[::1].evil.com:80", "127.0.0.1:80:80",
                           "127.0.0.1:", "127.0.0.1:8x", "127.0.0.1:123456", "localhost@evil.com",
                           "localhost.", "localhost:80,evil.com", "127.0.0.1@evil.com", "[::1"})
    EXPECT_EQ(get("/api/meta", host).status, 403) << host;
  EXPECT_EQ(get("/api/meta", "localhost:1234").status, 200);
  EXPECT_EQ(get("/api/meta", "[::1]:1234").status, 200);
  EXPECT_EQ(get("/api/meta", "[::1]").status, 200);
}

TEST_F(Requests, every_answer_carries_the_pages_policy) {
  for (const char* target : {"/", "/api/meta", "/../../etc/passwd"}) {
    const HttpResponse response = get(target);
    EXPECT_EQ(response.headers[0].first, "Content-Security-Policy");
    EXPECT_EQ(response.headers[0].second, "default-src 'none'; frame-ancestors 'none'");
  }
}

TEST_F(Requests, no_path_leads_out) {
  for (const char* target : {"/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd",
                             "/api/../meta", "/viewer.html", "/api/", "/api/%00"}) {
    const HttpResponse response = get(target);
    EXPECT_NE(response.status, 200) << target;
    EXPECT_EQ(response.body.find("root:"), std::string::npos);
  }
}

TEST_F(Requests, every_question_is_answered) {
  const std::string device = "file=0&device=0";
  for (const std::string& target :
       {std::string("/api/meta"),
        std::string("/api/report?file=0"),
        "/api/groups?by=stack&" + device,
        "/api/tile?axis=time&level=0&index=0&by=source&" + device,
        "/api/overlays?" + device,
        "/api/moment?position=10&" + device,
        "/api/spans?axis=event&level=0&index=0&" + device,
        "/api/group_bytes?position=10&by=source&" + device,
        "/api/flame?position=10&by=module&" + device,
        "/api/segments?position=10&by=line&" + device,
        "/api/allocations?words=x&min_size=512&order=lifetime&direction=up&limit=5&" + device,
        "/api/allocations?by=line&group=0&" + device,
        "/api/allocation?row=0&" + device,
        "/api/singles?from=0&to=50&by=source&axis=event&most=10&" + device,
        "/api/range?from=3&to=50&" + device,
        "/api/range_flame?from=3&to=50&part=survived&by=stack&" + device,
        "/api/settings?" + device,
        "/api/steps?" + device,
        "/api/advice?" + device,
        "/api/together?remedies=checkpointing&" + device,
        "/api/compare?position=3&file2=0&device2=0&position2=10&by=stack&" + device}) {
    const HttpResponse response = get(target);
    EXPECT_EQ(response.status, 200) << target << response.body;
    EXPECT_EQ(response.body.front(), '{');
  }
}

TEST_F(Requests, a_question_that_makes_no_sense_is_answered_with_a_sentence) {
  const std::string device = "file=0&device=0";
  for (const std::string& target :
       {std::string("/api/nothing"),
        std::string("/api/report?file=7"),
        std::string("/api/report"),
        std::string("/api/tile?file=0&device=9&by=line"),
        "/api/groups?by=colour&" + device,
        "/api/moment?position=4000000000&" + device,
        "/api/moment?position=-1&" + device,
        "/api/moment?position=1e3&" + device,
        "/api/flame?position=99999999&by=stack&" + device,
        "/api/tile?axis=event&level=50&index=0&by=line&" + device,
        "/api/tile?axis=event&level=0&index=4294967295&by=line&" + device,
        "/api/spans?axis=event&level=50&index=0&" + device,
        "/api/spans?axis=colour&level=0&index=0&" + device,
        "/api/group_bytes?position=4000000000&by=line&" + device,
        "/api/allocation?row=18446744073709551615&" + device,
        "/api/allocations?limit=100000&" + device,
        "/api/allocations?order=colour&" + device,
        "/api/singles?from=0&to=50&by=source&axis=event&most=99999999&" + device,
        "/api/range?from=50&to=3&" + device,
        "/api/range?from=0&to=4000000000&" + device,
        "/api/range_flame?from=50&to=3&part=freed&by=stack&" + device,
        "/api/range_flame?from=3&to=50&part=colour&by=stack&" + device}) {
    const HttpResponse response = get(target);
    EXPECT_EQ(response.status, 400) << target;
    EXPECT_EQ(response.body.rfind("{\"error\":\"", 0), 0U) << target;
  }
}

TEST_F(Requests, ranges_that_run_backwards_hold_nothing) {
  EXPECT_NE(get("/api/singles?from=50&to=3&by=line&axis=event&file=0&device=0")
                .body.find("\"matches\":0"),
            std::string::npos);
}

TEST(RandomToken, is_long_and_never_the_same) {
  EXPECT_EQ(random_token().size(), 32U);
  EXPECT_NE(random_token(), random_token());
}

}  // namespace
}  // namespace gpumemprof::cli
