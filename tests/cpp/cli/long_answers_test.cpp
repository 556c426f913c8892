// Answers that take long: shared by all who ask, visible while they are computed, given up when
// nobody asks any more.
#include "cli/http/long_answers.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>

namespace gpumemprof::cli {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kNoTime(0);
constexpr milliseconds kLong(60'000);

TEST(LongAnswers, one_that_is_ready_is_the_answer) {
  LongAnswers answers;
  const LongAnswers::Reply reply =
      answers.ask("a", [](LongWork&) { return Result<std::string>("42"); }, kLong);
  ASSERT_TRUE(reply.answer.has_value());
  EXPECT_EQ(reply.answer->value(), "42");
}

TEST(LongAnswers, an_error_is_an_answer) {
  LongAnswers answers;
  const LongAnswers::Reply reply = answers.ask(
      "a", [](LongWork&) { return Result<std::string>(Error{ErrorCode::usage, "no", "", ""}); },
      kLong);
  ASSERT_TRUE(reply.answer.has_value());
  EXPECT_FALSE(*reply.answer);
}

TEST(LongAnswers, who_asks_meanwhile_sees_how_far_it_is_and_gets_the_same) {
  LongAnswers answers;
  std::promise<void> shown;
  std::promise<void> may_end;
  std::atomic<int> computed = 0;
  const LongAnswers::Make make = [&](LongWork& work) {
    ++computed;
    work.begin("counting");
    work.update(3, 10);
    work.show("{}");
    shown.set_value();
    may_end.get_future().wait();
    return Result<std::string>("done");
  };
  EXPECT_FALSE(answers.ask("a", make, kNoTime).answer.has_value());
  shown.get_future().wait();
  const LongAnswers::Reply reply = answers.ask("a", make, kNoTime);
  EXPECT_FALSE(reply.answer.has_value());
  EXPECT_EQ(reply.progress.what, "counting");
  EXPECT_EQ(reply.progress.done, 3U);
  EXPECT_EQ(reply.progress.total, 10U);
  EXPECT_EQ(reply.progress.so_far, "{}");
  may_end.set_value();
  EXPECT_EQ(answers.ask("a", make, kLong).answer->value(), "done");
  EXPECT_EQ(answers.ask("a", make, kLong).answer->value(), "done");
  EXPECT_EQ(computed, 1);
}

// Ends when it sees that nobody waits.
Result<std::string> until_given_up(LongWork& work) {
  while (!work.is_given_up()) std::this_thread::sleep_for(milliseconds(1));
  return LongWork::given_up();
}

TEST(LongAnswers, one_that_nobody_asks_for_any_more_is_given_up_and_begun_again) {
  LongAnswers answers(milliseconds(20));
  std::promise<void> ended;
  const auto make = [&](LongWork& work) {
    Result<std::string> answer = until_given_up(work);
    ended.set_value();
    return answer;
  };
  EXPECT_FALSE(answers.ask("a", make, kNoTime).answer.has_value());
  ended.get_future().wait();
  const auto again = [](LongWork&) { return Result<std::string>("again"); };
  EXPECT_EQ(answers.ask("a", again, kLong).answer->value(), "again");
}

TEST(LongAnswers, what_is_computed_ends_with_it) {
  std::atomic<bool> has_ended = false;
  {
    LongAnswers answers(kLong);
    const auto make = [&](LongWork& work) {
      Result<std::string> answer = until_given_up(work);
      has_ended = true;
      return answer;
    };
    EXPECT_FALSE(answers.ask("a", make, kNoTime).answer.has_value());
  }
  EXPECT_TRUE(has_ended);
}

}  // namespace
}  // namespace gpumemprof::cli
