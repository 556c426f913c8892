// What a program may call to change files, one call of the C library after the other, in the
// current folder.
//
// Run by redirect_test.cpp: `redirect_program WAY`; 0 if the program sees what it did.
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace {

void expect(bool is_right, int line) {
  if (!is_right) {
    std::fprintf(stderr, "redirect_program.cpp:%d: not as expected (%s)\n", line,
                 std::strerror(errno));
    std::_Exit(1);
  }
}
#define EXPECT(condition) expect((condition), __LINE__)

std::string content(const char* path) {
  std::ostringstream out;
  out << std::ifstream(path).rdbuf();
  return out.str();
}

void put(const char* path, const char* mode, const char* text) {
  std::FILE* file = std::fopen(path, mode);
  EXPECT(file != nullptr && std::fputs(text, file) >= 0 && std::fclose(file) == 0);
}

// Written before main(), and before the library's own constructor may have run.
__attribute__((constructor)) void write_early() {
  if (std::getenv("WRITES_EARLY") != nullptr) {
    put("notes.txt", "w", "early");
  }
}

void streams() {
  put("notes.txt", "a", "appended");
  EXPECT(content("notes.txt") == "notes\nappended");
  put("notes.txt", "r+", "N");
  EXPECT(content("notes.txt") == "Notes\nappended");
  put("notes.txt", "w+", "new");
  EXPECT(content("notes.txt") == "new" && std::fopen("notes.txt", "wx") == nullptr);
  std::FILE* file = std::freopen("log.txt", "a", std::fopen("notes.txt", "r"));
  EXPECT(file != nullptr && std::fputs("more", file) >= 0 && std::fclose(file) == 0);
  EXPECT(content("log.txt") == "log\nmore");
  EXPECT(std::freopen("none/x", "w", std::fopen("notes.txt", "r")) == nullptr && errno == ENOENT);
  EXPECT(std::rename("log.txt", "notes.txt") == 0 && std::remove("notes.txt") == 0);
  EXPECT(access("notes.txt", F_OK) != 0 && access("log.txt", F_OK) != 0);
}

void trees() {
  EXPECT(mkdir("made", 0755) == 0 && unlink("data/a.txt") == 0);
  put("made/x", "w", "x");
  put("data/new.txt", "w", "new");
  static std::set<std::string> seen;
  EXPECT(nftw(
             ".",
             [](const char* path, const struct stat*, int, FTW*) {
               seen.insert(path);
               return 0;
             },
             8, FTW_PHYS) == 0);
  EXPECT(seen == std::set<std::string>({".", "./data", "./data/b.txt", "./data/new.txt", "./made",
                                        "./made/x", "./notes.txt", "./log.txt"}));
  dirent** entries = nullptr;
  EXPECT(scandir("data", &entries, nullptr, alphasort) == 4);
  EXPECT(std::string(entries[2]->d_name) == "b.txt" &&
         std::string(entries[3]->d_name) == "new.txt");
  glob_t found{};
  EXPECT(glob("*/*.txt", 0, nullptr, &found) == 0 && found.gl_pathc == 2);
  EXPECT(std::string(found.gl_pathv[1]) == "data/new.txt");
  globfree(&found);
  EXPECT(nftw(
             "data",
             [](const char* path, const struct stat*, int, FTW*) { return std::remove(path); }, 8,
             FTW_DEPTH | FTW_PHYS) == 0);
  EXPECT(opendir("data") == nullptr && errno == ENOENT);
}

void descriptors() {
  const int folder = open("data", O_RDONLY | O_DIRECTORY);
  const int file = openat(folder, "a.txt", O_WRONLY | O_TRUNC);
  EXPECT(write(file, "new", 3) == 3 && fchmod(file, 0600) == 0 && close(file) == 0);
  EXPECT(content("data/a.txt") == "new");
  struct stat status{};
  EXPECT(fstatat(folder, "a.txt", &status, 0) == 0 && (status.st_mode & 0777U) == 0600);
  EXPECT(renameat(folder, "a.txt", AT_FDCWD, "moved") == 0 &&
         linkat(AT_FDCWD, "moved", folder, "l", 0) == 0);
  EXPECT(symlinkat("l", folder, "s") == 0 && mkdirat(folder, "d", 0700) == 0);
  EXPECT(unlinkat(folder, "b.txt", 0) == 0 && unlinkat(folder, "d", AT_REMOVEDIR) == 0);
  EXPECT(fchdir(folder) == 0 && content("s") == "new" && access("b.txt", F_OK) != 0);
  char path[4096];
  EXPECT(getcwd(path, sizeof(path)) != nullptr && std::string(path).ends_with("/data"));
  EXPECT(chdir("..") == 0 && syscall(SYS_unlinkat, AT_FDCWD, "notes.txt", 0) == 0);
  EXPECT(syscall(SYS_openat, AT_FDCWD, "notes.txt", O_RDONLY, 0) == -1 && errno == ENOENT);
  EXPECT(syscall(SYS_io_uring_setup, 1, nullptr) == -1 && errno == ENOSYS);
}

// Calls that succeed leave errno as it is.
void keeps_errno() {
  errno = 77;
  const int file = open("notes.txt", O_WRONLY | O_CREAT | O_APPEND, 0644);
  struct stat status{};
  EXPECT(file >= 0 && stat("notes.txt", &status) == 0 && rename("notes.txt", "x") == 0);
  EXPECT(mkdir("y", 0700) == 0 && unlink("x") == 0 && errno == 77);
}

void starts_from_threads() {
  std::vector<std::thread> threads;
  for (int index = 0; index < 8; ++index) {
    threads.emplace_back([index] {
      for (int round = 0; round < 20; ++round) {
        const std::string name = "t" + std::to_string(index) + "-" + std::to_string(round);
        put(name.c_str(), "w", "x");
        const pid_t child = fork();
        if (child == 0) {
          // What was locked by another thread when this child was made is free again.
          _exit(unlink(name.c_str()) == 0 && creat("from_child", 0600) >= 0 ? 0 : 1);
        }
        int result = 1;
        EXPECT(waitpid(child, &result, 0) == child && result == 0);
        EXPECT(access(name.c_str(), F_OK) != 0);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

void replaces_environment() {
  const pid_t child = vfork();  // NOLINT(bugprone-unsafe-functions): what many programs do
  if (child == 0) {
    char command[] = "echo child >notes.txt; env -i /bin/sh -c 'echo grandchild >log.txt'";
    char shell[] = "sh";
    char option[] = "-c";
    char* const arguments[] = {shell, option, command, nullptr};
    char* const environment[] = {nullptr};
    execve("/bin/sh", arguments, environment);
    _exit(127);
  }
  int result = 1;
  EXPECT(waitpid(child, &result, 0) == child && result == 0);
  EXPECT(content("notes.txt") == "child\n" && content("log.txt") == "grandchild\n");
}

}  // namespace

int main(int count, char** arguments) {
  const std::map<std::string, std::function<void()>> ways = {
      {"streams", streams},
      {"trees", trees},
      {"descriptors", descriptors},
      {"keeps_errno", keeps_errno},
      {"starts_from_threads", starts_from_threads},
      {"replaces_environment", replaces_environment},
      {"early", [] { EXPECT(content("notes.txt") == "early"); }},
  };
  EXPECT(count == 2);
  ways.at(arguments[1])();
  return 0;
}
