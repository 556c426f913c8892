// What a folder shows: the names of the real one and of ours, merged.
#pragma once

#include "redirect/folder_reader.h"
#include "redirect/place.h"

namespace gpumemprof::redirect {

// The names that a folder shows, each once.
class MergedReader {
 public:
  explicit MergedReader(const Place& folder);
  [[nodiscard]] bool is_open() const { return written_.is_open() || real_.is_open(); }
  // Empty at the end. Valid until the next call.
  std::string_view next();

 private:
  [[nodiscard]] bool is_shown(std::string_view name) const;

  PathText written_path_;
  PathText removed_path_;
  FolderReader written_;
  FolderReader real_;
};

// Whether a folder shows anything else than the real one.
bool differs_from_real(const Place& folder);

bool is_empty_folder(const Place& folder);

// Opens a folder to list it. If it differs from the real one, then a folder of empty files with the
// same names.
long open_folder(const Place& folder, int flags);

}  // namespace gpumemprof::redirect
