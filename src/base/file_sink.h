// FileSink: a file being written, one whole piece at a time.
//
// A piece that cannot be written whole is taken back, so that the file always ends with a whole
// one. Nothing is buffered here. A forked child that inherits the object cannot write through it.
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

  static Result<std::unique_ptr<FileSink>> create(const std::string& path, Existing existing);
  FileSink(const FileSink&) = delete;
  FileSink& operator=(const FileSink&) = delete;
  ~FileSink();

  // One write(2), unless the system takes less than all of it.
  Status write(std::span<const std::byte> piece);
  // Some file systems report a full disk only here.
  Status close();

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::uint64_t size_bytes() const { return size_bytes_; }
  // False in a forked child.
  [[nodiscard]] bool is_ours() const;

 private:
  FileSink(int descriptor, std::string path);

  int descriptor_;
  std::string path_;
  std::int64_t owner_process_;
  std::uint64_t size_bytes_ = 0;
};

}  // namespace gpumemprof
