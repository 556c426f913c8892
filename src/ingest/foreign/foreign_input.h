// The bytes of another tool's file, plain or gzipped, with limits on what they may become.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/byte_source.h"
#include "ingest/gzip_source.h"

namespace gpumemprof {

class ForeignInput final : public ByteSource {
 public:
  // `least_limit_bytes`: raises what a gzipped file of its size may expand to.
  ForeignInput(ByteSource& source, std::uint64_t size_bytes, std::uint64_t least_limit_bytes);

  Result<std::size_t> read(std::span<std::byte> out) override;
  // Why the unzipped bytes end early; empty: they do not.
  [[nodiscard]] std::string broken() const { return unzipped_ ? unzipped_->broken() : ""; }
  // After the first bytes were read.
  [[nodiscard]] bool is_zipped() const { return unzipped_ != nullptr; }
  // Bytes read so far, unzipped.
  [[nodiscard]] std::uint64_t offset() const { return offset_; }

 private:
  Result<ByteSource*> inner();

  PeekableSource start_;
  std::uint64_t most_bytes_;
  std::unique_ptr<GzipSource> unzipped_;
  ByteSource* inner_ = nullptr;
  std::uint64_t offset_ = 0;
};

// The first bytes inside a gzipped file; of any other file, its first bytes.
struct FirstBytes {
  std::vector<std::byte> bytes;
  bool is_zipped = false;
};
FirstBytes first_bytes_inside(ByteSource& source, std::size_t count);

}  // namespace gpumemprof
