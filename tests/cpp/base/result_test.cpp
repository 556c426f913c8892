#include "base/result.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace gpumemprof {
namespace {

TEST(Result, holds_a_value_or_an_error) {
  const Result<int> value(5);
  EXPECT_TRUE(value.ok());
  EXPECT_EQ(value.value(), 5);
  const Result<int> failed(Error{ErrorCode::bad_input, "it broke", "file, byte 3", "try again"});
  EXPECT_FALSE(failed);
  EXPECT_EQ(failed.error().message, "it broke");
}

TEST(Result, is_checked_even_in_release_builds) {
  const Result<int> value(5);
  EXPECT_THROW((void)value.error(), InternalError);
  const Result<int> failed(Error{});
  EXPECT_THROW((void)failed.value(), InternalError);
}

TEST(Result, moves_its_value_out) {
  Result<std::unique_ptr<int>> result(std::make_unique<int>(7));
  const std::unique_ptr<int> taken = std::move(result).value();
  EXPECT_EQ(*taken, 7);
}

TEST(Error, is_a_sentence) {
  EXPECT_EQ(
      (Error{ErrorCode::bad_input, "it broke", "a.pickle, byte 3", "make another"}).sentence(),
      "a.pickle, byte 3: it broke; make another");
  EXPECT_EQ((Error{ErrorCode::bug, "it broke", "", ""}).sentence(), "it broke");
}

TEST(Error, has_one_exit_code_for_each_class) {
  EXPECT_EQ(exit_code(ErrorCode::limit_exceeded), 1);
  EXPECT_EQ(exit_code(ErrorCode::usage), 2);
  EXPECT_EQ(exit_code(ErrorCode::bad_input), 3);
  EXPECT_EQ(exit_code(ErrorCode::environment), 4);
  EXPECT_EQ(exit_code(ErrorCode::bug), 70);
}

TEST(Check, names_the_condition_and_the_place) {
  try {
    GMP_CHECK(1 + 1 == 3);
    FAIL();
  } catch (const InternalError& error) {
    EXPECT_NE(std::string(error.what()).find("1 + 1 == 3"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("result_test.cpp"), std::string::npos);
  }
}

}  // namespace
}  // namespace gpumemprof
