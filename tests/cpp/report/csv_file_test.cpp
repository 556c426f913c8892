// Tables as CSV: cells cannot break a line, and what is not known is empty.
#include "report/csv/csv_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace gpumemprof {
namespace {

class CsvTables : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        std::filesystem::temp_directory_path() / ("csv_file_test_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  CsvFile file() {
    return CsvFile(
        std::move(FileSink::create((folder_ / "t.csv").string(), FileSink::Existing::replace,
                                   FileSink::Appears::when_closed))
            .value());
  }
  [[nodiscard]] std::string text() const {
    std::ostringstream read;
    read << std::ifstream(folder_ / "t.csv").rdbuf();
    return read.str();
  }

  std::filesystem::path folder_;
};

TEST_F(CsvTables, cells_are_quoted_where_they_must_be) {
  CsvFile csv = file();
  csv.add(SmallTable{"t", {"a", "b"}, {{std::string("x,\"y\"\nz"), std::int64_t{-3}}}});
  ASSERT_TRUE(csv.finish());
  EXPECT_EQ(text(), "a,b\n\"x,\"\"y\"\"\nz\",-3\n");
}

TEST_F(CsvTables, text_that_a_spreadsheet_would_compute_has_an_apostrophe_and_numbers_have_none) {
  CsvFile csv = file();
  SmallTable table{"t", {"a", "b"}, {}};
  for (const char* text : {"=1+1", "+1", "-1", "@SUM(1)", "\t=1", "\r=1", "'x", "a=1"})
    table.rows.push_back({std::string(text), std::int64_t{-3}});
  csv.add(table);
  ASSERT_TRUE(csv.finish());
  EXPECT_EQ(text(),
            "a,b\n\"'=1+1\",-3\n\"'+1\",-3\n\"'-1\",-3\n\"'@SUM(1)\",-3\n\"'\t=1\",-3\n"
            "\"'\r=1\",-3\n\"''x\",-3\na=1,-3\n");
}

TEST_F(CsvTables, the_unknown_is_an_empty_cell_and_an_empty_text_is_not) {
  CsvFile csv = file();
  csv.add(SmallTable{"t", {"a", "b"}, {{Cell(), std::string()}}});
  ASSERT_TRUE(csv.finish());
  EXPECT_EQ(text(), "a,b\n,\"\"\n");
}

TEST_F(CsvTables, frames_of_a_store_are_rows) {
  Store store;
  store.add_frame({store.add_string("f"), store.add_string("a,b.py"), 7});
  CsvFile csv = file();
  csv.add_range(store, arrow::TableKind::frames, nullptr, {}, 0, 1);
  ASSERT_TRUE(csv.finish());
  EXPECT_EQ(text(), "frame,name,file,line\n0,f,\"a,b.py\",7\n");
}

TEST_F(CsvTables, a_table_without_rows_has_its_header) {
  CsvFile csv = file();
  csv.add_header(arrow::TableKind::stacks);
  csv.add_header(arrow::TableKind::stacks);
  ASSERT_TRUE(csv.finish());
  EXPECT_EQ(text(), "stack,caller,frame\n");
}

TEST_F(CsvTables, a_full_disk_is_reported) {
  CsvFile csv(std::move(FileSink::create("/dev/full", FileSink::Existing::replace,
                                         FileSink::Appears::when_closed))
                  .value());
  csv.add(SmallTable{"t", {"a"}, {{std::int64_t{1}}}});
  EXPECT_FALSE(csv.finish());
}

}  // namespace
}  // namespace gpumemprof
