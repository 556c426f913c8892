// Programs with the redirecting library: whatever they call, no real file changes.
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

// Mode, size, times and bytes of everything below a folder.
std::map<std::string, std::string> manifest(const fs::path& folder) {
  std::map<std::string, std::string> found;
  const auto note = [&](const fs::path& path) {
    struct stat status{};
    lstat(path.c_str(), &status);
    std::ostringstream text;
    text << status.st_mode << ' ' << status.st_size << ' ' << status.st_ino << ' '
         << status.st_mtim.tv_sec << ' ' << status.st_mtim.tv_nsec << ' ' << status.st_ctim.tv_nsec
         << '\n';
    if (fs::is_regular_file(path)) {
      text << std::ifstream(path).rdbuf();
    }
    found[path.string()] = text.str();
  };
  note(folder);
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    note(entry.path());
  }
  return found;
}

class Redirect : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "redirect-XXXXXX").string();
    root_ = mkdtemp(name.data());
    work_ = root_ / "work";
    fs::create_directories(work_ / "data");
    fs::create_directory(root_ / "scratch");
    write("notes.txt", "notes\n");
    write("log.txt", "log\n");
    write("data/a.txt", "a\n");
    write("data/b.txt", "b\n");
    before_ = manifest(work_);
  }
  void TearDown() override { fs::remove_all(root_); }

  void write(const char* name, const char* text) { std::ofstream(work_ / name) << text; }

  // The exit status of the program, run in the folder.
  [[nodiscard]] int run(const std::string& way) const {
    const std::string command =
        "cd '" + work_.string() + "' && LD_PRELOAD='" REDIRECT_LIBRARY "' GPUMEMPROF_REDIRECT='" +
        (root_ / "scratch").string() + "' exec '" REDIRECT_PROGRAM "' " + way;
    std::vector<std::string> words = {"/bin/sh", "-c", command};
    std::vector<char*> arguments = {words[0].data(), words[1].data(), words[2].data(), nullptr};
    pid_t child = 0;
    if (posix_spawn(&child, "/bin/sh", nullptr, nullptr, arguments.data(), environ) != 0) {
      return -1;
    }
    int status = 0;
    waitpid(child, &status, 0);
    return status;
  }

  fs::path root_;
  fs::path work_;
  std::map<std::string, std::string> before_;
};

TEST_P(Redirect, program_sees_its_changes_and_no_real_file_changes) {
  EXPECT_EQ(run(GetParam()), 0);
  EXPECT_EQ(manifest(work_), before_);
}

INSTANTIATE_TEST_SUITE_P(Ways, Redirect,
                         testing::Values("streams", "trees", "descriptors", "keeps_errno",
                                         "starts_from_threads", "replaces_environment"),
                         [](const auto& way) { return way.param; });

using RedirectEarly = Redirect;

TEST_F(RedirectEarly, constructor_that_writes_is_redirected) {
  setenv("WRITES_EARLY", "1", 1);
  EXPECT_EQ(run("early"), 0);
  unsetenv("WRITES_EARLY");
  EXPECT_EQ(manifest(work_), before_);
}

}  // namespace
