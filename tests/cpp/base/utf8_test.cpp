#include "base/utf8.h"

#include <gtest/gtest.h>

namespace gpumemprof {
namespace {

TEST(Utf8, accepts_every_valid_length) {
  for (const char* text :
       {"", "plain", "\u00FC", "\u5185", "\U0001F525", "\u07FF\u0800\uFFFF\U00010000\U0010FFFF"}) {
    EXPECT_TRUE(is_valid_utf8(text)) << text;
    EXPECT_EQ(repaired_utf8(text), text);
  }
}

TEST(Utf8, refuses_what_only_looks_like_it) {
  for (const char* text : {"\x80", "\xC3", "\xC0\x80", "\xC1\xBF", "\xE0\x80\x80", "\xE0\x9F\xBF",
                           "\xED\xA0\x80", "\xED\xBF\xBF", "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80",
                           "\xF5\x80\x80\x80", "\xFF", "a\xE5\x86", "\xF0\x9F\x94"}) {
    EXPECT_FALSE(is_valid_utf8(text));
    EXPECT_TRUE(is_valid_utf8(repaired_utf8(text)));
  }
}

TEST(Utf8, keeps_what_is_valid_around_what_is_not) {
  EXPECT_EQ(repaired_utf8("caf\xE9!"), "caf\uFFFD!");
  EXPECT_EQ(repaired_utf8("\xE5\x86\u5185"), "\uFFFD\uFFFD\u5185");
}

TEST(Utf8, writes_code_points) {
  const auto written = [](char32_t code_point) {
    std::string text;
    append_utf8(text, code_point);
    return text;
  };
  EXPECT_EQ(written('a'), "a");
  EXPECT_EQ(written(0), std::string(1, '\0'));
  EXPECT_EQ(written(0x7FF), "\u07FF");
  EXPECT_EQ(written(0x800), "\u0800");
  EXPECT_EQ(written(0x10FFFF), "\U0010FFFF");
  for (const char32_t bad : {0xD800U, 0xDFFFU, 0x110000U, 0xFFFFFFFFU})
    EXPECT_EQ(written(bad), "\uFFFD");
}

}  // namespace
}  // namespace gpumemprof
