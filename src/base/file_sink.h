// FileSink: a file being written, one whole piece at a time.
//
// A piece that cannot be written whole is taken back, so that the file always ends with a whole
// one. Nothing is buffered here. A forked child that inherits the object cannot write through it.
//
// A file that appears when it is closed has no name before: whoever may write to the folder cannot
// have put a link or a pipe in its way, and a process that is killed leaves nothing behind. A name
// that is taken by then is replaced only where that was asked for, and a link by that name is
// replaced itself, never followed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"

namespace gpumemprof {

class FileSink {
 public:
  enum class Existing : std::uint8_t { refuse, replace };
  // A pipe or a device that is to be replaced is written to, at once.
  enum class Appears : std::uint8_t { at_once, when_closed };

  static Result<std::unique_ptr<FileSink>> create(const std::string& path, Existing existing,
                                                  Appears appears = Appears::at_once);
  FileSink(const FileSink&) = delete;
  FileSink& operator=(const FileSink&) = delete;
  ~FileSink();

  // One write(2), unless the system takes less than all of it.
  Status write(std::span<const std::byte> piece);
  // Some file systems report a full disk only here. Without it a file that appears when closed
  // never does.
  Status close();

  // What was written is not all there is: a file that appears when closed does not.
  void abandon() { has_failed_ = true; }

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::uint64_t size_bytes() const { return size_bytes_; }
  // False in a forked child.
  [[nodiscard]] bool is_ours() const;

 private:
  FileSink(int descriptor, std::string path);
  static Result<std::unique_ptr<FileSink>> create_hidden(const std::string& path,
                                                         Existing existing);
  // Gives the file its name.
  Status publish();

  int descriptor_;
  std::string path_;
  bool is_hidden_ = false;   // it does not have its own name yet
  std::string hidden_name_;  // the name it has until then; empty: none at all
  bool has_failed_ = false;  // a piece is missing
  Existing existing_ = Existing::refuse;
  std::int64_t owner_process_;
  std::uint64_t size_bytes_ = 0;
};

}  // namespace gpumemprof
