#include "ingest/traceback_line.h"

#include <gtest/gtest.h>

namespace gpumemprof {
namespace {

TEST(TracebackLine, file_line_and_function_are_read) {
  const auto read = read_traceback_line("  File \"/a b/c.py\", line 31, in forward\n    x = 1\n");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->file, "/a b/c.py");
  EXPECT_EQ(read->line, 31U);
  EXPECT_EQ(read->name, "forward");
}

TEST(TracebackLine, a_file_may_be_named_as_it_likes) {
  const auto read = read_traceback_line("File \"a\", line 1, in \"b\", line 2, in <lambda>");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->file, "a\", line 1, in \"b");
  EXPECT_EQ(read->line, 2U);
  EXPECT_EQ(read->name, "<lambda>");
}

TEST(TracebackLine, nothing_else_is_one) {
  for (const char* text :
       {"", " ", "\n", "File", "  File \"", "  File \"a\"", "  File \"a\", line ",
        "  File \"a\", line x, in f", "  File \"a\", line -1, in f", "  File \"a\", line 1",
        "  File \"a\", line 4294967296, in f", "  File \"a\n\", line 1, in f",
        "    return self.head(x)"}) {
    EXPECT_FALSE(read_traceback_line(text)) << text;
  }
}

}  // namespace
}  // namespace gpumemprof
