#include "index/identity.h"

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "base/byte_source.h"
#include "index/index_file.h"
#include "index/sources_checksum.h"
#include "trace/bytes_io.h"
#include "trace/chapters/chapter_folder.h"
#include "trace/checksum.h"

namespace gpumemprof {
namespace {

constexpr std::uint64_t kEndBytes = std::uint64_t{256} << 10U;
constexpr std::uint64_t kSampleBytes = std::uint64_t{4} << 10U;
constexpr std::uint64_t kSamples = 64;
// Of one chapter among many.
constexpr std::uint64_t kChapterEndBytes = std::uint64_t{16} << 10U;
constexpr std::uint64_t kChapterSamples = 4;

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

struct Samples {
  std::uint64_t end_bytes = kEndBytes;
  std::uint64_t count = kSamples;
};

// Adds the length of a file and samples of it.
Result<std::uint64_t> add_file(const std::string& path, const Samples& samples,
                               trace::OutBytes& sums) {
  const Result<std::unique_ptr<FileSource>> file = FileSource::open(path);
  if (!file) return file.error();
  const std::uint64_t size_bytes = file.value()->size_bytes();
  const auto sample = [&](std::uint64_t offset, std::uint64_t size) -> Status {
    const Result<std::uint64_t> sum = checksum_at(*file.value(), offset, size);
    if (!sum) return sum.error();
    sums.fixed(sum.value());
    return Done{};
  };
  Status sampled = sample(0, samples.end_bytes);
  for (std::uint64_t number = 1; number < samples.count && sampled; ++number)
    sampled = sample(size_bytes / samples.count * number, kSampleBytes);
  if (sampled)
    sampled = sample(size_bytes - std::min(size_bytes, samples.end_bytes), samples.end_bytes);
  if (!sampled) return sampled.error();
  return size_bytes;
}

// The total length.
Result<std::uint64_t> add_chapters(const std::string& folder, trace::OutBytes& sums) {
  const Result<std::vector<ChapterFile>> files = list_chapters(folder);
  if (!files) return files.error();
  std::uint64_t total_bytes = 0;
  for (const ChapterFile& file : files.value()) {
    sums.fixed(file.number);
    const Result<std::uint64_t> size_bytes =
        add_file(file.path, {kChapterEndBytes, kChapterSamples}, sums);
    // One that the recorder has just removed makes another recording of it.
    sums.fixed(size_bytes ? size_bytes.value() : 0);
    if (size_bytes) total_bytes += size_bytes.value();
  }
  const std::string summary = folder + "/" + std::string(kSummaryName);
  const Result<std::uint64_t> summary_bytes = add_file(summary, {}, sums);
  sums.fixed(summary_bytes ? summary_bytes.value() : 0);
  return total_bytes;
}

}  // namespace

Result<Identity> identity_of(const std::string& recording) {
  Identity identity;
  trace::OutBytes sums;
  const Result<std::uint64_t> size_bytes =
      is_folder(recording) ? add_chapters(recording, sums) : add_file(recording, {}, sums);
  if (!size_bytes) return size_bytes.error();
  identity.size_bytes = size_bytes.value();
  identity.content_checksum = trace::checksum(sums.span());
  trace::OutBytes maker;
  maker.text(GPUMEMPROF_VERSION);
  maker.text(kSourcesChecksum);
  maker.fixed(index_schema_checksum());
  identity.maker_checksum = trace::checksum(maker.span());
  return identity;
}

}  // namespace gpumemprof
