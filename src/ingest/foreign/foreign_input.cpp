#include "ingest/foreign/foreign_input.h"

#include <algorithm>

namespace gpumemprof {
namespace {

constexpr std::size_t kMagicBytes = 8;

// Traces compress to a tenth or less; anything that expands far more is malicious.
std::uint64_t most_unzipped_bytes(std::uint64_t file_bytes) {
  constexpr std::uint64_t kBase = std::uint64_t{64} << 20;
  constexpr std::uint64_t kPerFileByte = 200;
  return kBase + file_bytes * kPerFileByte;
}

}  // namespace

ForeignInput::ForeignInput(ByteSource& source, std::uint64_t size_bytes,
                           std::uint64_t least_limit_bytes)
    : start_(source, kMagicBytes),
      most_bytes_(std::max(most_unzipped_bytes(size_bytes), least_limit_bytes)) {}

Result<ByteSource*> ForeignInput::inner() {
  if (inner_ != nullptr) return inner_;
  const Result<std::span<const std::byte>> magic = start_.peek();
  if (!magic) return magic.error();
  if (GzipSource::looks_like_gzip(magic.value())) {
    unzipped_ = std::make_unique<GzipSource>(start_, most_bytes_);
    inner_ = unzipped_.get();
  } else {
    inner_ = &start_;
  }
  return inner_;
}

Result<std::size_t> ForeignInput::read(std::span<std::byte> out) {
  const Result<ByteSource*> source = inner();
  if (!source) return source.error();
  Result<std::size_t> got = source.value()->read(out);
  if (got) offset_ += got.value();
  return got;
}

FirstBytes first_bytes_inside(ByteSource& source, std::size_t count) {
  ForeignInput input(source, 0, 0);
  std::vector<std::byte> bytes(count);
  std::size_t filled = 0;
  while (filled < count) {
    const Result<std::size_t> got = input.read(std::span(bytes).subspan(filled));
    if (!got || got.value() == 0) break;
    filled += got.value();
  }
  bytes.resize(filled);
  return {std::move(bytes), input.is_zipped()};
}

}  // namespace gpumemprof
