#include "session/long_view/work_folder.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>
#include <system_error>

#include "trace/chapters/chapter_folder.h"

namespace gpumemprof {
namespace {

namespace fs = std::filesystem;

Error cannot(const std::string& what, const std::string& where, const std::string& why) {
  return {ErrorCode::environment, what + " (" + why + ")", where,
          "set TMPDIR to a folder with more room"};
}

// Those that exist.
class Registry {
 public:
  void add(const std::string& path) {
    const std::scoped_lock lock(mutex_);
    paths_.insert(path);
  }
  void remove(const std::string& path) {
    const std::scoped_lock lock(mutex_);
    std::error_code ignored;
    fs::remove_all(path, ignored);
    paths_.erase(path);
  }
  void remove_all() {
    const std::scoped_lock lock(mutex_);
    std::error_code ignored;
    for (const std::string& path : paths_) fs::remove_all(path, ignored);
    paths_.clear();
  }

 private:
  std::mutex mutex_;
  std::set<std::string> paths_;
};

Registry& registry() {
  static Registry folders;
  return folders;
}

}  // namespace

Result<std::unique_ptr<WorkFolder>> WorkFolder::make() {
  std::error_code failed;
  const fs::path parent = fs::temp_directory_path(failed);
  std::string name = (failed ? fs::path("/tmp") : parent) / "gpumemprof-view-XXXXXX";
  if (::mkdtemp(name.data()) == nullptr)
    return cannot("no temporary folder can be made", name, std::strerror(errno));
  registry().add(name);
  return std::unique_ptr<WorkFolder>(new WorkFolder(std::move(name)));
}

WorkFolder::~WorkFolder() { registry().remove(path_); }
void WorkFolder::remove_all() { registry().remove_all(); }

std::string WorkFolder::place_of(const std::string& file) const {
  fs::path name = fs::path(file).filename();
  if (name.empty()) name = fs::path(file).parent_path().filename();
  if (name.empty() || name == "." || name == "..") name = "recording";
  return fs::path(path_) / name;
}

Status WorkFolder::link(const std::string& file) const {
  std::error_code failed;
  fs::create_symlink(fs::absolute(file, failed), place_of(file), failed);
  if (failed) return cannot("the recording cannot be linked", place_of(file), failed.message());
  return Done{};
}

Status WorkFolder::copy(const std::string& file) const {
  if (fs::is_directory(file)) return copy_chapters(file);
  std::ifstream from(file, std::ios::binary);
  std::ofstream to(place_of(file), std::ios::binary);
  to << from.rdbuf();
  to.close();
  if (!from || !to)
    return cannot("the recording, which is still being written, cannot be copied", place_of(file),
                  std::strerror(errno));
  return Done{};
}

// Chapters that are complete stay as they are, so another name for them is enough, if it can be
// made; the last one and the summary grow.
Status WorkFolder::copy_chapters(const std::string& folder) const {
  std::error_code failed;
  fs::create_directory(place_of(folder), failed);
  const Result<std::vector<ChapterFile>> files = list_chapters(folder);
  if (!files) return files.error();
  const auto copy_one = [&](const std::string& from, bool grows) {
    const fs::path to = fs::path(place_of(folder)) / fs::path(from).filename();
    std::error_code problem;
    if (!grows) fs::create_hard_link(from, to, problem);
    if (grows || problem) fs::copy_file(from, to, problem);
    // The recorder may have removed it.
    if (problem && problem != std::errc::no_such_file_or_directory) failed = problem;
  };
  for (const ChapterFile& file : files.value())
    copy_one(file.path, file.number == files.value().back().number);
  copy_one(folder + "/" + std::string(kSummaryName), true);
  if (failed)
    return cannot("the recording, which is still being written, cannot be copied", place_of(folder),
                  failed.message());
  return Done{};
}

}  // namespace gpumemprof
