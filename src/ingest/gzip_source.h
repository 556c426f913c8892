// GzipSource: the uncompressed bytes of a gzip file (one member or several).
#pragma once

#include <memory>
#include <vector>

#include "base/byte_source.h"

namespace gpumemprof {

class GzipSource final : public ByteSource {
 public:
  // Also broken where it expands to more than `most_bytes`.
  explicit GzipSource(ByteSource& compressed, std::uint64_t most_bytes = ~std::uint64_t{0});
  ~GzipSource() override;

  // A truncated or damaged stream ends there; broken() then says why.
  Result<std::size_t> read(std::span<std::byte> out) override;
  [[nodiscard]] const std::string& broken() const { return broken_; }

  static bool looks_like_gzip(std::span<const std::byte> start);

 private:
  struct Inflater;
  std::unique_ptr<Inflater> inflater_;
  ByteSource& compressed_;
  std::uint64_t left_bytes_;
  std::vector<std::byte> input_;
  std::string broken_;
  bool finished_ = false;
};

}  // namespace gpumemprof
