// A file appears whole or not at all, under its own name and nobody else's.
#include "base/file_sink.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

namespace gpumemprof {
namespace {

using Existing = FileSink::Existing;
using Appears = FileSink::Appears;

class NewFile : public ::testing::Test {
 protected:
  NewFile() {
    std::string name = (std::filesystem::temp_directory_path() / "file_sink_XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  ~NewFile() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string path(const std::string& name) const { return folder_ + "/" + name; }
  [[nodiscard]] static std::string content(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  [[nodiscard]] std::size_t count() const {
    const auto entries = std::filesystem::directory_iterator(folder_);
    return static_cast<std::size_t>(std::distance(begin(entries), end(entries)));
  }
  [[nodiscard]] Result<std::unique_ptr<FileSink>> create(
      const std::string& name, Existing existing = Existing::refuse) const {
    return FileSink::create(path(name), existing, Appears::when_closed);
  }
  static void write(FileSink& sink, const std::string& text) {
    ASSERT_TRUE(sink.write(std::as_bytes(std::span(text))));
  }

  std::string folder_;
};

TEST_F(NewFile, appears_when_it_is_closed) {
  auto sink = create("run.gmp");
  ASSERT_TRUE(sink);
  write(*sink.value(), "all of it");
  EXPECT_FALSE(std::filesystem::exists(path("run.gmp")));
  ASSERT_TRUE(sink.value()->close());
  EXPECT_EQ(content(path("run.gmp")), "all of it");
  EXPECT_EQ(count(), 1U);
}

TEST_F(NewFile, leaves_nothing_behind_where_it_is_not_closed) {
  {
    auto sink = create("run.gmp");
    ASSERT_TRUE(sink);
    write(*sink.value(), "half of it");
  }
  EXPECT_EQ(count(), 0U);
}

TEST_F(NewFile, is_not_published_with_a_piece_missing) {
  auto sink = create("run.gmp");
  ASSERT_TRUE(sink);
  write(*sink.value(), "half of it");
  sink.value()->abandon();
  (void)sink.value()->close();
  EXPECT_EQ(count(), 0U);
}

TEST_F(NewFile, never_follows_a_link_in_its_place) {
  std::ofstream(path("precious")) << "mine";
  std::filesystem::create_symlink(path("precious"), path("run.gmp"));
  std::filesystem::create_symlink(path("precious"), path("run.gmp.part"));
  EXPECT_EQ(create("run.gmp").error().code, ErrorCode::usage);
  auto sink = create("run.gmp", Existing::replace);
  ASSERT_TRUE(sink);
  write(*sink.value(), "new");
  ASSERT_TRUE(sink.value()->close());
  EXPECT_EQ(content(path("precious")), "mine");
  EXPECT_EQ(content(path("run.gmp")), "new");
  EXPECT_FALSE(std::filesystem::is_symlink(path("run.gmp")));
}

TEST_F(NewFile, does_not_replace_what_came_in_between) {
  auto sink = create("run.gmp");
  ASSERT_TRUE(sink);
  std::ofstream(path("run.gmp")) << "another's";
  const Status closed = sink.value()->close();
  ASSERT_FALSE(closed);
  EXPECT_EQ(closed.error().code, ErrorCode::usage);
  sink.value().reset();
  EXPECT_EQ(content(path("run.gmp")), "another's");
  EXPECT_EQ(count(), 1U);
}

TEST_F(NewFile, replaces_where_that_is_asked_for) {
  std::ofstream(path("run.gmp")) << "old";
  auto sink = create("run.gmp", Existing::replace);
  ASSERT_TRUE(sink);
  EXPECT_EQ(content(path("run.gmp")), "old");
  write(*sink.value(), "new");
  ASSERT_TRUE(sink.value()->close());
  EXPECT_EQ(content(path("run.gmp")), "new");
  EXPECT_EQ(count(), 1U);
}

TEST_F(NewFile, refuses_a_name_that_the_system_would_cut_short) {
  const auto sink = create(std::string("run.gmp\0x", 9));
  ASSERT_FALSE(sink);
  EXPECT_NE(sink.error().message.find("zero byte"), std::string::npos);
}

TEST_F(NewFile, says_that_a_folder_is_no_file) {
  std::filesystem::create_directory(path("folder"));
  EXPECT_EQ(create("folder", Existing::replace).error().code, ErrorCode::environment);
}

TEST_F(NewFile, that_is_there_at_once_replaces_a_link_instead_of_what_it_leads_to) {
  std::ofstream(path("other")) << "mine";
  for (const char* target : {"other", "nowhere"}) {
    std::filesystem::create_symlink(target, path("run.gmp"));
    auto sink = FileSink::create(path("run.gmp"), Existing::replace);
    ASSERT_TRUE(sink) << sink.error().sentence();
    write(*sink.value(), "new");
    ASSERT_TRUE(sink.value()->close());
    EXPECT_FALSE(std::filesystem::is_symlink(path("run.gmp")));
    EXPECT_EQ(content(path("run.gmp")), "new");
    std::filesystem::remove(path("run.gmp"));
  }
  EXPECT_EQ(content(path("other")), "mine");
  EXPECT_EQ(count(), 1U);
}

TEST_F(NewFile, without_a_single_piece_is_removed) {
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit none{0, before.rlim_max};
  {
    auto sink = FileSink::create(path("run.gmp"), Existing::refuse);
    ASSERT_TRUE(sink);
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &none), 0);
    EXPECT_FALSE(sink.value()->write(std::as_bytes(std::span("text"))));
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  }
  EXPECT_EQ(count(), 0U);
}

}  // namespace
}  // namespace gpumemprof
