// ByteSource: bytes in order, once. FileSource reads a file through a small buffer; nothing is
// mapped, so a file that shrinks while it is read ends early instead of crashing the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace gpumemprof {

class ByteSource {
 public:
  ByteSource() = default;
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;
  virtual ~ByteSource() = default;

  // Fills at most out.size() bytes and returns how many; 0 means the end.
  virtual Result<std::size_t> read(std::span<std::byte> out) = 0;
};

class FileSource : public ByteSource {
 public:
  // Fails at once for what is no regular file: a pipe or a device may have no end, or no beginning.
  static Result<std::unique_ptr<FileSource>> open(const std::string& path);
  // Also a pipe without a name, which whoever started this process writes to: /dev/stdin, <(zcat
  // FILE). Its size is 0.
  static Result<std::unique_ptr<FileSource>> open_input(const std::string& path);
  ~FileSource() override;

  Result<std::size_t> read(std::span<std::byte> out) override;
  // When it was opened.
  [[nodiscard]] std::uint64_t size_bytes() const { return size_bytes_; }
  // Now, for a file that others write to.
  [[nodiscard]] std::uint64_t current_size_bytes() const;
  // Whether the path still names this file: it may have been removed, or replaced by another.
  [[nodiscard]] bool is_at_its_path() const;
  // The next byte to read.
  void move_to(std::uint64_t offset);
  // Reads as if it ended there, however long it has become.
  void set_end(std::uint64_t offset) { end_ = offset; }

 private:
  static Result<std::unique_ptr<FileSource>> open(const std::string& path, bool allows_pipes);
  FileSource(int descriptor, std::string path, std::uint64_t size_bytes)
      : descriptor_(descriptor), path_(std::move(path)), size_bytes_(size_bytes) {}

  int descriptor_;
  std::string path_;
  std::uint64_t size_bytes_;
  std::uint64_t position_ = 0;
  std::uint64_t end_ = ~std::uint64_t{0};
};

// All of a regular file; fails where it has more.
Result<std::string> read_file(const std::string& path, std::uint64_t most_bytes);

// Bytes already in memory; for tests, fuzzers and files given as bytes.
class BufferSource : public ByteSource {
 public:
  explicit BufferSource(std::span<const std::byte> bytes) : rest_(bytes) {}
  Result<std::size_t> read(std::span<std::byte> out) override;

 private:
  std::span<const std::byte> rest_;
};

// Allows the first bytes to be examined before they are read.
class PeekableSource : public ByteSource {
 public:
  PeekableSource(ByteSource& source, std::size_t peeked_bytes);
  Result<std::size_t> read(std::span<std::byte> out) override;
  // Fewer than requested if the source is shorter.
  [[nodiscard]] Result<std::span<const std::byte>> peek();

 private:
  ByteSource& source_;
  std::vector<std::byte> start_;
  std::size_t wanted_;
  std::size_t taken_ = 0;
};

}  // namespace gpumemprof
