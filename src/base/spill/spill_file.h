// SpillFile: a file without a name for what memory should not hold meanwhile. It lies where
// temporary files lie ($TMPDIR) and is gone when this is, or the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace gpumemprof {

class SpillFile {
 public:
  SpillFile() = default;
  SpillFile(const SpillFile&) = delete;
  SpillFile& operator=(const SpillFile&) = delete;
  ~SpillFile();

  // Where the bytes are from now on. None: they could not be written (there is no such folder, or
  // the disk is full), and the caller keeps them.
  std::optional<std::uint64_t> append(std::span<const std::byte> bytes);
  // Bytes that were appended. False if the system cannot read them back.
  bool read(std::uint64_t offset, std::span<std::byte> bytes) const;

 private:
  int descriptor_ = -1;
  bool has_failed_ = false;
  std::uint64_t size_bytes_ = 0;
};

}  // namespace gpumemprof
