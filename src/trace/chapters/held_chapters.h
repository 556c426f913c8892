// HeldChapters: the chapters of a folder as they were at one moment, so that the folder can be read
// more than once while its recorder goes on.
//
// A chapter that grows is read as far as it went then. The recorder removes the oldest chapters;
// some of them are kept open, so that they can be read even if their names are gone.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/byte_source.h"
#include "trace/chapters/chapter_folder.h"

namespace gpumemprof {

class HeldChapters {
 public:
  enum class Hold : std::uint8_t { oldest, none };
  // Fails if it is not a folder of chapters.
  static Result<std::unique_ptr<HeldChapters>> open(const std::string& folder,
                                                    Hold hold = Hold::oldest);

  // The same chapters, to be read independently of this; those that were removed meanwhile cannot.
  [[nodiscard]] std::unique_ptr<HeldChapters> again() const;

  [[nodiscard]] const std::string& folder() const { return folder_; }
  [[nodiscard]] const std::vector<ChapterFile>& files() const { return files_; }
  [[nodiscard]] std::uint64_t total_bytes() const { return total_bytes_; }
  // One of these files, from its beginning; valid until the next call. Null if it was gone before
  // it could be read. Fails with bad_input if it may not be read, otherwise if it is gone since.
  Result<FileSource*> read(std::size_t index);

 private:
  enum class State : std::uint8_t { unread, read, gone };

  std::string folder_;
  std::vector<ChapterFile> files_;
  std::vector<State> states_;
  std::vector<std::unique_ptr<FileSource>> held_;  // of the oldest
  std::unique_ptr<FileSource> open_;               // of the others: that which is being read
  std::uint64_t total_bytes_ = 0;
};

}  // namespace gpumemprof
