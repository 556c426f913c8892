#include "base/byte_source.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

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

class NoFile : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "no_fileXXXXXX";
    folder_ = ::mkdtemp(name.data());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  [[nodiscard]] std::string path(const std::string& name) const { return folder_ / name; }

  std::filesystem::path folder_;
};

TEST_F(NoFile, is_refused_at_once_although_nobody_writes_to_it) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  std::filesystem::create_symlink("/dev/zero", path("endless"));
  for (const auto& open : {&FileSource::open, &FileSource::open_input}) {
    EXPECT_EQ(open(path("pipe")).error().sentence(),
              path("pipe") +
                  ": this is a pipe, not a file; write what it gives to a file, and "
                  "name that");
    EXPECT_EQ(open(path("endless")).error().message, "this is a device, not a file");
  }
  EXPECT_FALSE(read_file(path("pipe"), 100));
}

TEST_F(NoFile, may_be_a_socket) {
  const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  ASSERT_LT(path("s").size(), sizeof(address.sun_path));
  std::strcpy(address.sun_path, path("s").c_str());
  ASSERT_EQ(::bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_EQ(FileSource::open(path("s")).error().message, "this is a socket, not a file");
  ::close(socket);
}

TEST_F(NoFile, may_be_a_pipe_without_a_name_where_input_is_read_once) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const std::string name = "/dev/fd/" + std::to_string(ends[0]);
  EXPECT_EQ(FileSource::open(name).error().message, "this is a pipe, not a file");
  auto input = FileSource::open_input(name);
  ASSERT_TRUE(input);
  // Before anything is written: reading waits for it, as for any input.
  std::thread writer([&] {
    EXPECT_EQ(::write(ends[1], "0123456789", 10), 10);
    ::close(ends[1]);
  });
  EXPECT_EQ(drained(*input.value(), 3), "0123456789");
  writer.join();
  ::close(ends[0]);
}

TEST_F(NoFile, is_not_what_a_text_file_is) {
  std::ofstream(path("text")) << std::string(100'000, 'x');
  EXPECT_EQ(read_file(path("text"), 100'000).value(), std::string(100'000, 'x'));
  EXPECT_NE(read_file(path("text"), 99'999).error().message.find("too long"), std::string::npos);
}

}  // namespace
}  // namespace gpumemprof
