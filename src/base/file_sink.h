// FileSink: a file being written, one whole piece at a time.
//
// A piece that cannot be written completely is removed again, so that the file always ends with a
// whole one, and one of which nothing could be written is removed. Nothing is buffered here. A
// forked child that inherits the object cannot write through it.
//
// A file that appears when it is closed has no name before that: whoever may write to the folder
// cannot have put a link or a pipe in its way, and a process that is killed leaves nothing behind.
// A name that is taken by then is replaced only if that was requested. A link to a file is itself
// replaced, never followed.
//
// The host process is not ours, and may close any descriptor it finds: the descriptor has a high
// number, and each write first checks that it is still our file. One that was closed is reopened by
// its path if that still leads to the same file.
#pragma once

#include <sys/types.h>

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
  // A pipe or a device that is to be replaced is written to directly, at once.
  enum class Appears : std::uint8_t { at_once, when_closed };

  // A file that another sink is writing is refused either way.
  static Result<std::unique_ptr<FileSink>> create(const std::string& path, Existing existing,
                                                  Appears appears = Appears::at_once);
  FileSink(const FileSink&) = delete;
  FileSink& operator=(const FileSink&) = delete;
  ~FileSink();

  // Keeps this much space on the disk past the end for write_last(), if the file system can.
  void reserve(std::uint64_t bytes) { reserve_bytes_ = bytes; }
  // One write(2), unless the system writes only part of it.
  Status write(std::span<const std::byte> piece);
  // The last piece, into the reserved space: fits even if the disk is full.
  Status write_last(std::span<const std::byte> piece);
  // Some file systems report a full disk only here. Without this call, a file that appears when
  // closed never does. Also fails if the path no longer leads to this file.
  Status close();

  // What was written is incomplete: a file that appears when closed does not appear.
  void abandon() { has_failed_ = true; }

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::uint64_t size_bytes() const { return size_bytes_; }
  // False in a forked child.
  [[nodiscard]] bool is_ours() const;

 private:
  struct Identity {
    dev_t device = 0;
    ino_t inode = 0;
    bool operator==(const Identity&) const = default;
  };

  FileSink(int descriptor, std::string path);
  static Result<std::unique_ptr<FileSink>> create_visible(const std::string& path,
                                                          Existing existing);
  // Makes sure that the descriptor is this file's, reopening it if it was closed.
  Status recover();
  Status put(std::span<const std::byte> piece);
  [[nodiscard]] bool holds_file() const;
  // Whether its path still leads to it.
  [[nodiscard]] bool is_in_its_place() const;
  bool open_again();
  // 0, or why this much space cannot be reserved past the end.
  [[nodiscard]] int make_room(std::uint64_t bytes) const;
  static Result<std::unique_ptr<FileSink>> create_hidden(const std::string& path,
                                                         Existing existing);
  // Gives the file its name.
  Status publish();

  int descriptor_;
  std::string path_;
  std::string absolute_path_;  // the program may change its working directory
  Identity identity_;
  bool is_regular_ = false;
  bool is_hidden_ = false;   // it does not have its final name yet
  std::string hidden_name_;  // the name it has until then; empty: none at all
  bool has_failed_ = false;  // a piece is missing
  Existing existing_ = Existing::refuse;
  std::int64_t owner_process_;
  std::uint64_t size_bytes_ = 0;
  std::uint64_t reserve_bytes_ = 0;
  bool has_room_ = false;  // the space is reserved
};

}  // namespace gpumemprof
