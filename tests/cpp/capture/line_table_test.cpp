#include "capture/stacks/line_table.h"

#include <gtest/gtest.h>

#include <string>

namespace gpumemprof::capture {
namespace {

std::string bytes(std::initializer_list<int> values) {
  std::string text;
  for (const int value : values) text.push_back(static_cast<char>(value));
  return text;
}

TEST(LineTable, reads_the_pairs_of_python_3_9) {
  const std::string table = bytes({0, 1, 8, 1, 4, -2});
  EXPECT_EQ(line_of(LineTableFormat::lnotab, table, 10, 0), 11U);
  EXPECT_EQ(line_of(LineTableFormat::lnotab, table, 10, 7), 11U);
  EXPECT_EQ(line_of(LineTableFormat::lnotab, table, 10, 8), 12U);
  EXPECT_EQ(line_of(LineTableFormat::lnotab, table, 10, 12), 10U);
}

TEST(LineTable, reads_the_ranges_of_python_3_10) {
  const std::string table = bytes({4, 1, 2, -128, 6, 2});
  EXPECT_EQ(line_of(LineTableFormat::pep626, table, 10, 0), 11U);
  EXPECT_EQ(line_of(LineTableFormat::pep626, table, 10, 4), 11U);
  EXPECT_EQ(line_of(LineTableFormat::pep626, table, 10, 6), 13U);
}

// def f(): two lines, as CPython 3.11 writes them: RESUME without columns, then short and one-line
// forms.
TEST(LineTable, reads_the_locations_of_python_3_11) {
  const std::string table = bytes({0x80, 0x00, 0xD8 + 1, 0x05, 0x08, 0xE8 | 2, 0x02, 0x80, 0x11});
  EXPECT_EQ(line_of(LineTableFormat::locations, table, 10, 0), 10U);
  EXPECT_EQ(line_of(LineTableFormat::locations, table, 10, 2), 11U);
  EXPECT_EQ(line_of(LineTableFormat::locations, table, 10, 6), 12U);
}

TEST(LineTable, survives_a_table_that_breaks_off) {
  for (const LineTableFormat format :
       {LineTableFormat::lnotab, LineTableFormat::pep626, LineTableFormat::locations}) {
    EXPECT_EQ(line_of(format, "", 7, 100), 7U);
    for (int head = 0; head < 256; ++head) {
      line_of(format, bytes({head}), 7, 1000);
      line_of(format, bytes({head, 0x7F, 0x7F}), 7, 1000);
    }
  }
}

}  // namespace
}  // namespace gpumemprof::capture
