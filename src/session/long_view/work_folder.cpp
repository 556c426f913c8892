#include "session/long_view/work_folder.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>
#include <system_error>

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
  return fs::path(path_) / fs::path(file).filename();
}

Status WorkFolder::link(const std::string& file) const {
  std::error_code failed;
  fs::create_symlink(fs::absolute(file, failed), place_of(file), failed);
  if (failed) return cannot("the recording cannot be linked", place_of(file), failed.message());
  return Done{};
}

Status WorkFolder::copy(const std::string& file) const {
  std::ifstream from(file, std::ios::binary);
  std::ofstream to(place_of(file), std::ios::binary);
  to << from.rdbuf();
  to.close();
  if (!from || !to)
    return cannot("the recording, which is still being written, cannot be copied", place_of(file),
                  std::strerror(errno));
  return Done{};
}

}  // namespace gpumemprof
