// The page about all ranks, and the viewers of those that are opened.
#include "cli/http/rank_requests.h"

#include <gtest/gtest.h>

namespace gpumemprof::cli {
namespace {

constexpr const char* kRanksPage =
    "<meta http-equiv=\"Content-Security-Policy\" content=\"ranks\"><!--data-->";
constexpr const char* kViewerPage =
    "<meta http-equiv=\"Content-Security-Policy\" content=\"viewer\"><!--data-->";
constexpr const char* kRecording = GPUMEMPROF_TEST_DATA "/snapshots/oom_fragmented.pickle.gz";

class RankPageRequests : public ::testing::Test {
 protected:
  [[nodiscard]] HttpResponse get(const std::string& path, const std::string& token = "secret") {
    HttpRequest request;
    request.path = path;
    request.headers["host"] = "127.0.0.1:99";
    if (!token.empty()) request.parameters["token"] = token;
    return requests_.answer(request);
  }
  static std::string header(const HttpResponse& response, const std::string& name) {
    for (const auto& [key, value] : response.headers) {
      if (key == name) return value;
    }
    return "";
  }

  int opened_ = 0;
  RankPages pages_{
      "",
      "packed",
      {kRecording, "", kRecording, "missing.gmp", kRecording, kRecording, kRecording, kRecording}};
  RankRequests requests_{
      pages_, kRanksPage, kViewerPage, "secret",
      [this](const std::string& recording) -> Result<std::unique_ptr<GrowingView>> {
        ++opened_;
        Result<std::shared_ptr<const Recording>> read = Recording::open(recording);
        if (!read) return read.error();
        return std::make_unique<GrowingView>(std::vector<ViewedRun>{std::move(read).value()});
      }};
};

TEST_F(RankPageRequests, the_pages_hold_nothing_and_need_no_token) {
  EXPECT_EQ(get("/", "").body, kRanksPage);
  EXPECT_EQ(get("/rank/0/", "").body, kViewerPage);
  EXPECT_TRUE(header(get("/"), "Content-Security-Policy").starts_with("ranks;"));
  EXPECT_TRUE(header(get("/rank/0/"), "Content-Security-Policy").starts_with("viewer;"));
  EXPECT_EQ(opened_, 0);
}

TEST_F(RankPageRequests, nothing_else_is_answered_without_the_token) {
  for (const char* path : {"/api/ranks", "/rank/0/api/state", "/rank/0/api/meta", "/rank/9/",
                           "/rank/", "/rank/0", "/rank/x/", "/open/x"}) {
    EXPECT_EQ(get(path, "").status, 403) << path;
    EXPECT_EQ(get(path, "secreT").status, 403) << path;
    EXPECT_FALSE(get(path, "").is_trusted) << path;
  }
  EXPECT_EQ(opened_, 0);
}

TEST_F(RankPageRequests, the_report_is_sent_as_it_is) {
  const HttpResponse response = get("/api/ranks");
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.body, "packed");
  EXPECT_EQ(response.content_type, "application/octet-stream");
  EXPECT_TRUE(response.is_trusted);
}

TEST_F(RankPageRequests, a_rank_is_opened_once_when_it_is_asked_for) {
  const HttpResponse first = get("/rank/2/api/meta");
  EXPECT_EQ(first.status, 200);
  EXPECT_NE(first.body.find("oom_fragmented"), std::string::npos);
  EXPECT_EQ(get("/rank/2/api/state").status, 200);
  EXPECT_EQ(opened_, 1);
}

TEST_F(RankPageRequests, only_the_last_few_stay_open) {
  for (const int number : {0, 2, 4, 5, 6, 7})
    EXPECT_EQ(get("/rank/" + std::to_string(number) + "/api/state").status, 200);
  EXPECT_EQ(opened_, 6);
  static_assert(RankRequests::kMostOpen == 4);
  EXPECT_EQ(get("/rank/7/api/state").status, 200);
  EXPECT_EQ(get("/rank/4/api/state").status, 200);
  EXPECT_EQ(opened_, 6);
  EXPECT_EQ(get("/rank/0/api/state").status, 200);
  EXPECT_EQ(opened_, 7);
}

TEST_F(RankPageRequests, what_cannot_be_opened_says_why) {
  const HttpResponse summary_only = get("/rank/1/api/state");
  EXPECT_EQ(summary_only.status, 400);
  EXPECT_NE(summary_only.body.find("only the summary of this rank is here"), std::string::npos);
  const HttpResponse missing = get("/rank/3/api/state");
  EXPECT_EQ(missing.status, 400);
  EXPECT_NE(missing.body.find("missing.gmp"), std::string::npos);
}

TEST_F(RankPageRequests, numbers_and_paths_that_do_not_exist_are_not_found) {
  for (const char* path : {"/rank/8/", "/rank/8/api/state", "/rank/-1/", "/rank/0x/", "/rank/",
                           "/rank/0", "/rank/99999999999999999999/", "/rank/0/other"})
    EXPECT_EQ(get(path).status, 404) << path;
  EXPECT_EQ(opened_, 0);
}

}  // namespace
}  // namespace gpumemprof::cli
