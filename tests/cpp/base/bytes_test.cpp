#include "base/bytes.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

namespace gpumemprof {
namespace {

TEST(Bytes, are_printed_with_three_figures) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(512), "512 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1024), "1.00 KiB");
  EXPECT_EQ(format_bytes(10 * kKiB + 300), "10.3 KiB");
  EXPECT_EQ(format_bytes(100 * kMiB), "100 MiB");
  EXPECT_EQ(format_bytes(5128585216), "4.78 GiB");
  EXPECT_EQ(format_bytes(~std::uint64_t{0}), "16.0 EiB");
}

// The table that Python's and the viewer's texts are compared with too.
TEST(Bytes, read_as_in_the_table_of_all_languages) {
  std::ifstream table(GPUMEMPROF_TEST_DATA "/bytes.tsv");
  std::uint64_t bytes = 0;
  std::string text;
  int lines = 0;
  for (; table >> bytes && table.get() == '\t' && std::getline(table, text); ++lines)
    EXPECT_EQ(format_bytes(bytes), text);
  EXPECT_GE(lines, 20);
}

TEST(Bytes, step_to_the_next_unit_before_they_would_print_1024) {
  EXPECT_EQ(format_bytes(kMiB - 1), "1.00 MiB");
  EXPECT_EQ(format_bytes(kMiB - 600), "1023 KiB");
  EXPECT_EQ(format_bytes(kGiB - 1), "1.00 GiB");
  EXPECT_EQ(format_bytes(10 * kKiB - 1), "10.0 KiB");
}

TEST(Bytes, are_understood_as_people_write_them) {
  EXPECT_EQ(parse_bytes("1073741824"), kGiB);
  EXPECT_EQ(parse_bytes("24GiB"), 24 * kGiB);
  EXPECT_EQ(parse_bytes("24 GB"), 24000000000U);
  EXPECT_EQ(parse_bytes("512m"), 512 * kMiB);
  EXPECT_EQ(parse_bytes("1.5 KiB"), 1536U);
  EXPECT_EQ(parse_bytes("0"), 0U);
  EXPECT_EQ(parse_bytes("0.5b"), 1U);
  EXPECT_EQ(parse_bytes("2TiB"), 2 * kKiB * kGiB);
}

TEST(Bytes, stay_exact_up_to_64_bits) {
  EXPECT_EQ(parse_bytes("9007199254740993"), 9007199254740993U);
  EXPECT_EQ(parse_bytes("18446744073709551615"), ~std::uint64_t{0});
  EXPECT_EQ(parse_bytes("16777215TiB"), 16777215 * kGiB * kKiB);
  EXPECT_EQ(parse_bytes("1e19"), 10000000000000000000U);
}

TEST(Bytes, that_make_no_sense_are_refused) {
  for (const char* text :
       {"", " ", "GiB", "-1", "-1 GiB", "5 parsecs", "1..5", "0x10", "nan", "inf",
        "18446744073709551616", "16777216TiB", "1e30", "1.5.GiB", "5GiB extra", "+5"}) {
    EXPECT_EQ(parse_bytes(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace gpumemprof
