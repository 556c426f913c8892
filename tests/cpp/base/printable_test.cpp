// Untrusted names must not affect the terminal.
#include "base/printable.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace gpumemprof {
namespace {

TEST(Printable, plain_text_of_any_script_stays) {
  for (const char* text : {"train.py:12 forward", "", "größer", "模型.py", "שלום",
                           "\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x92\xbb"})
    EXPECT_EQ(printable(text), text);
}

TEST(Printable, what_acts_on_a_terminal_is_a_dot) {
  EXPECT_EQ(printable("a\x1b[2Jb"), "a.[2Jb");
  EXPECT_EQ(printable("a\x07\r\n\tb\x7f"), "a....b.");
  EXPECT_EQ(printable("a\xc2\x9b"
                      "31mb"),
            "a.31mb");  // CSI of Latin-1
  EXPECT_EQ(printable("gpj\xe2\x80\xae"
                      "exe"),
            "gpj.exe");                                           // right to left
  EXPECT_EQ(printable("\xe2\x81\xa6x\xe2\x81\xa9"), ".x.");       // isolates
  EXPECT_EQ(printable("a\xe2\x80\xa8z"), "a.z");                  // a line separator
  EXPECT_EQ(printable("\xff\x9b[31m\xed\xa0\x80"), "..[31m...");  // not UTF-8
  EXPECT_EQ(printable(std::string_view("a\0b", 3)), "a.b");
}

TEST(Printable, a_page_keeps_its_lines_and_its_own_styles) {
  EXPECT_EQ(printable_page("\033[1mpeak\033[0m\nx\x1b]0;title\x07\n", true),
            "\033[1mpeak\033[0m\nx.]0;title.\n");
  EXPECT_EQ(printable_page("\033[1mpeak\033[0m\n", false), ".[1mpeak.[0m\n");
  EXPECT_EQ(printable_page("\n\n\xc2\x9b\n", true), "\n\n.\n");
}

TEST(Printable, json_means_the_same) {
  EXPECT_EQ(printable_json("{\n \"a\": \"\xc2\x9bz\xe2\x80\xae\xf3\xa0\x80\x81\"\n}"),
            "{\n \"a\": \"\\u009bz\\u202e\\udb40\\udc01\"\n}");
  EXPECT_EQ(printable_json("{\"name\": \"größer\"}"), "{\"name\": \"größer\"}");
}

TEST(Printable, sentences_of_errors_have_no_controls) {
  const Error error{ErrorCode::bad_input, "no such file", "a\x1b[31m\n.gmp", "check the path"};
  EXPECT_EQ(error.sentence(), "a.[31m..gmp: no such file; check the path");
}

}  // namespace
}  // namespace gpumemprof
