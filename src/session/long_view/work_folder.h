// WorkFolder: a folder for temporary files, removed with all that is in it.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"

namespace gpumemprof {

class WorkFolder {
 public:
  static Result<std::unique_ptr<WorkFolder>> make();
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;
  ~WorkFolder();

  // Those of the whole process, for one that ends without destroying them.
  static void remove_all();

  // Where a file of the same name can be.
  [[nodiscard]] std::string place_of(const std::string& file) const;
  // Puts a link to the file, or folder of chapters, there.
  Status link(const std::string& file) const;
  // Copies as much of the file as there is now.
  Status copy(const std::string& file) const;

 private:
  explicit WorkFolder(std::string path) : path_(std::move(path)) {}
  Status copy_chapters(const std::string& folder) const;
  std::string path_;
};

}  // namespace gpumemprof
