#include "index/identity.h"

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "base/byte_source.h"
#include "index/index_file.h"
#include "index/sources_checksum.h"
#include "trace/bytes_io.h"
#include "trace/checksum.h"

namespace gpumemprof {
namespace {

constexpr std::uint64_t kEndBytes = std::uint64_t{256} << 10U;
constexpr std::uint64_t kSampleBytes = std::uint64_t{4} << 10U;
constexpr std::uint64_t kSamples = 64;

Result<std::uint64_t> checksum_at(FileSource& file, std::uint64_t offset, std::uint64_t size) {
  std::vector<std::byte> bytes(size);
  file.move_to(offset);
  std::size_t have = 0;
  while (have < bytes.size()) {
    const Result<std::size_t> got = file.read(std::span(bytes).subspan(have));
    if (!got) return got.error();
    if (got.value() == 0) break;
    have += got.value();
  }
  return trace::checksum({reinterpret_cast<const std::uint8_t*>(bytes.data()), have});
}

}  // namespace

Result<Identity> identity_of(const std::string& recording) {
  Result<std::unique_ptr<FileSource>> file = FileSource::open(recording);
  if (!file) return file.error();
  Identity identity;
  identity.size_bytes = file.value()->size_bytes();
  trace::OutBytes sums;
  const auto sample = [&](std::uint64_t offset, std::uint64_t size) -> Status {
    const Result<std::uint64_t> sum = checksum_at(*file.value(), offset, size);
    if (!sum) return sum.error();
    sums.fixed(sum.value());
    return Done{};
  };
  Status sampled = sample(0, kEndBytes);
  for (std::uint64_t number = 1; number < kSamples && sampled; ++number)
    sampled = sample(identity.size_bytes / kSamples * number, kSampleBytes);
  if (sampled)
    sampled = sample(identity.size_bytes - std::min(identity.size_bytes, kEndBytes), kEndBytes);
  if (!sampled) return sampled.error();
  identity.content_checksum = trace::checksum(sums.span());
  trace::OutBytes maker;
  maker.text(GPUMEMPROF_VERSION);
  maker.text(kSourcesChecksum);
  maker.fixed(index_schema_checksum());
  identity.maker_checksum = trace::checksum(maker.span());
  return identity;
}

}  // namespace gpumemprof
