// Writing a file inside a program that may close, reuse, delete or replace anything.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>
#include <vector>

#include "base/file_sink.h"

namespace gpumemprof {
namespace {

std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class FileInAProgram : public testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        std::filesystem::temp_directory_path() / ("gpumemprof-sink-" + std::to_string(::getpid()));
    std::filesystem::create_directory(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string path(const char* name) const { return folder_ / name; }
  [[nodiscard]] std::unique_ptr<FileSink> sink(const char* name) const {
    auto made = FileSink::create(path(name), FileSink::Existing::refuse);
    EXPECT_TRUE(made);
    return std::move(made).value();
  }
  // Every descriptor that refers to the file, as a program would find it.
  [[nodiscard]] static std::vector<int> descriptors_of(const std::string& path) {
    struct stat wanted{};
    EXPECT_EQ(::stat(path.c_str(), &wanted), 0);
    std::vector<int> found;
    for (int descriptor = 0; descriptor < 4096; ++descriptor) {
      struct stat status{};
      if (::fstat(descriptor, &status) == 0 && status.st_dev == wanted.st_dev &&
          status.st_ino == wanted.st_ino)
        found.push_back(descriptor);
    }
    return found;
  }

  std::filesystem::path folder_;
};

TEST_F(FileInAProgram, keeps_out_of_the_usual_numbers_and_closes_on_exec) {
  const auto file = sink("a.gmp");
  const std::vector<int> descriptors = descriptors_of(path("a.gmp"));
  ASSERT_EQ(descriptors.size(), 1U);
  EXPECT_GE(descriptors[0], 64);
  EXPECT_NE(::fcntl(descriptors[0], F_GETFD) & FD_CLOEXEC, 0);
}

TEST_F(FileInAProgram, never_becomes_a_standard_stream) {
  const int kept = ::dup(STDIN_FILENO);
  ::close(STDIN_FILENO);
  struct rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &old), 0);
  struct rlimit few = old;
  few.rlim_cur = 16;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  const auto file = FileSink::create(path("a.gmp"), FileSink::Existing::refuse);
  ::setrlimit(RLIMIT_NOFILE, &old);
  struct stat status{};
  EXPECT_NE(::fstat(STDIN_FILENO, &status), 0) << "descriptor 0 is not the program's any more";
  ::dup2(kept, STDIN_FILENO);
  ::close(kept);
  if (!file) return;
  EXPECT_GT(descriptors_of(path("a.gmp")).at(0), STDERR_FILENO);
}

TEST_F(FileInAProgram,
       goes_on_after_the_program_closed_its_descriptor_and_leaves_the_new_file_alone) {
  const auto file = sink("a.gmp");
  ASSERT_TRUE(file->write(as_bytes("first ")));
  const int number = descriptors_of(path("a.gmp")).at(0);
  ::close(number);
  const int other = ::open(path("other").c_str(), O_RDWR | O_CREAT, 0600);
  ASSERT_EQ(::dup2(other, number), number);
  ASSERT_TRUE(file->write(as_bytes("second")));
  ASSERT_TRUE(file->close());
  EXPECT_EQ(content_of(path("a.gmp")), "first second");
  EXPECT_EQ(content_of(path("other")), "");
  struct stat status{};
  EXPECT_EQ(::fstat(number, &status), 0) << "the program's own descriptor was closed";
  ::close(number);
  ::close(other);
}

TEST_F(FileInAProgram, goes_on_from_another_folder) {
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder_);
  auto file = FileSink::create("a.gmp", FileSink::Existing::refuse).value();
  const int number = descriptors_of(path("a.gmp")).at(0);
  std::filesystem::current_path("/");
  ::close(number);
  EXPECT_TRUE(file->write(as_bytes("text")));
  EXPECT_TRUE(file->close());
  std::filesystem::current_path(before);
  EXPECT_EQ(content_of(path("a.gmp")), "text");
}

TEST_F(FileInAProgram, ends_with_a_reason_where_the_path_leads_to_another_file) {
  const auto file = sink("a.gmp");
  ASSERT_TRUE(file->write(as_bytes("first")));
  ::close(descriptors_of(path("a.gmp")).at(0));
  std::filesystem::remove(path("a.gmp"));
  std::filesystem::create_symlink("/dev/null", path("a.gmp"));
  const Status written = file->write(as_bytes("second"));
  ASSERT_FALSE(written);
  EXPECT_NE(written.error().sentence().find("the program closed the file"), std::string::npos);
}

TEST_F(FileInAProgram, says_when_its_file_is_gone_at_the_end) {
  const auto file = sink("a.gmp");
  std::filesystem::remove(path("a.gmp"));
  const Status closed = file->close();
  ASSERT_FALSE(closed);
  EXPECT_NE(closed.error().message.find("deleted or replaced"), std::string::npos);
}

TEST_F(FileInAProgram, refuses_a_file_that_is_being_written_and_leaves_it_whole) {
  const auto first = sink("a.gmp");
  ASSERT_TRUE(first->write(as_bytes("first")));
  const auto second = FileSink::create(path("a.gmp"), FileSink::Existing::replace);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::usage);
  EXPECT_EQ(content_of(path("a.gmp")), "first");
  ASSERT_TRUE(first->close());
  EXPECT_TRUE(FileSink::create(path("a.gmp"), FileSink::Existing::replace));
}

// A limit on the file's size stands for a disk that fills up.
TEST_F(FileInAProgram, has_room_for_the_last_piece_when_the_disk_is_full) {
  struct rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  struct rlimit limit = old;
  limit.rlim_cur = 100'000;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  const auto file = sink("a.gmp");
  file->reserve(1'000);
  const std::string piece(1'000, 'x');
  int whole = 0;
  while (whole < 1'000 && file->write(as_bytes(piece))) ++whole;
  const Status last = file->write_last(as_bytes(std::string(1'000, 'e')));
  const Status closed = file->close();
  ::setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_EQ(whole, 99);
  EXPECT_TRUE(last);
  EXPECT_TRUE(closed);
  EXPECT_EQ(content_of(path("a.gmp")).size(), 100'000U);
  EXPECT_EQ(content_of(path("a.gmp")).back(), 'e');
}

}  // namespace
}  // namespace gpumemprof
