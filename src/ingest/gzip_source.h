// GzipSource: the uncompressed bytes of a gzip file (one member or several).
#pragma once

#include <memory>
#include <vector>

#include "base/byte_source.h"

namespace gpumemprof {

class GzipSource final : public ByteSource {
 public:
  explicit GzipSource(ByteSource& compressed);
  ~GzipSource() override;

  // A stream that breaks off or is damaged ends there; broken() then says why.
  Result<std::size_t> read(std::span<std::byte> out) override;
  [[nodiscard]] const std::string& broken() const { return broken_; }

  static bool looks_like_gzip(std::span<const std::byte> start);

 private:
  struct Inflater;
  std::unique_ptr<Inflater> inflater_;
  ByteSource& compressed_;
  std::vector<std::byte> input_;
  std::string broken_;
  bool finished_ = false;
};

}  // namespace gpumemprof
