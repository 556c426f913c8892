#include "base/byte_source.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <string>

namespace gpumemprof {
namespace {

std::string drained(ByteSource& source, std::size_t step) {
  std::string all;
  std::vector<std::byte> buffer(step);
  for (;;) {
    const Result<std::size_t> got = source.read(buffer);
    if (!got.ok() || got.value() == 0) return all;
    all.append(reinterpret_cast<const char*>(buffer.data()), got.value());
  }
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

TEST(BufferSource, delivers_every_byte_once) {
  const std::string text = "0123456789";
  for (const std::size_t step : {1U, 3U, 10U, 100U}) {
    BufferSource source(bytes_of(text));
    EXPECT_EQ(drained(source, step), text);
  }
}

TEST(PeekableSource, shows_the_start_and_still_delivers_it) {
  const std::string text = "0123456789";
  for (const std::size_t step : {1U, 3U, 100U}) {
    BufferSource buffer(bytes_of(text));
    PeekableSource source(buffer, 4);
    const auto start = source.peek();
    ASSERT_TRUE(start.ok());
    EXPECT_EQ(start.value().size(), 4U);
    EXPECT_EQ(start.value()[3], std::byte{'3'});
    EXPECT_EQ(drained(source, step), text);
  }
}

TEST(PeekableSource, shows_less_of_a_shorter_source) {
  const std::string text = "ab";
  BufferSource buffer(bytes_of(text));
  PeekableSource source(buffer, 4);
  EXPECT_EQ(source.peek().value().size(), 2U);
  EXPECT_EQ(drained(source, 10), text);
}

TEST(FileSource, reads_a_file_and_knows_its_size) {
  const std::string path =
      testing::TempDir() + "gpumemprof_file_source_" + std::to_string(::getpid());
  const std::string text(100000, 'x');
  std::ofstream(path) << text;
  auto file = FileSource::open(path);
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file.value()->size_bytes(), text.size());
  EXPECT_EQ(drained(*file.value(), 777), text);
  std::filesystem::remove(path);
}

TEST(FileSource, ends_early_where_the_file_shrinks) {
  const std::string path =
      testing::TempDir() + "gpumemprof_shrinking_" + std::to_string(::getpid());
  std::ofstream(path) << std::string(100000, 'x');
  auto file = FileSource::open(path);
  ASSERT_TRUE(file.ok());
  std::array<std::byte, 10> start{};
  ASSERT_EQ(file.value()->read(start).value(), 10U);
  std::filesystem::resize_file(path, 20);
  EXPECT_EQ(drained(*file.value(), 777).size(), 10U);
  std::filesystem::remove(path);
}

TEST(FileSource, refuses_what_is_no_file) {
  EXPECT_EQ(FileSource::open("no/such/file").error().code, ErrorCode::bad_input);
  EXPECT_NE(FileSource::open("no/such/file").error().sentence().find("no/such/file"),
            std::string::npos);
  EXPECT_EQ(FileSource::open(testing::TempDir()).error().code, ErrorCode::bad_input);
}

}  // namespace
}  // namespace gpumemprof
