#include "trace/reader.h"

#include <algorithm>
#include <cstring>

#include "trace/delivery.h"
#include "trace/format.h"

namespace gpumemprof {

// A forged file must not exhaust the machine. A recorded event takes half a byte or more in the
// file, because of its time, and 80 bytes in memory; this allows for ten times as much, and for
// small files whose events have no time and repeat themselves, whose compression ratio has no
// limit.
std::uint64_t memory_limit_bytes(std::uint64_t file_bytes) {
  constexpr std::uint64_t kBase = std::uint64_t{256} << 20;
  constexpr std::uint64_t kPerFileByte = 2048;
  return kBase + file_bytes * kPerFileByte;
}

bool looks_like_trace(std::span<const std::byte> start) {
  return start.size() >= trace::kMagic.size() &&
         std::memcmp(start.data(), trace::kMagic.data(), trace::kMagic.size()) == 0;
}

Result<std::unique_ptr<TraceReader>> TraceReader::open(const std::string& path, Progress progress) {
  Result<std::unique_ptr<FileSource>> file = FileSource::open(path);
  if (!file) return file.error();
  const std::uint64_t size_bytes = file.value()->size_bytes();
  std::unique_ptr<TraceReader> reader(
      new TraceReader(std::move(file).value(), size_bytes, path, std::move(progress)));
  if (Status read = trace::read_file_header(*reader->source_, reader->name_); !read)
    return read.error();
  return reader;
}

Result<std::unique_ptr<TraceReader>> TraceReader::from_bytes(std::span<const std::byte> bytes,
                                                             std::string name) {
  std::unique_ptr<TraceReader> reader(
      new TraceReader(std::make_unique<BufferSource>(bytes), bytes.size(), std::move(name), {}));
  if (Status read = trace::read_file_header(*reader->source_, reader->name_); !read)
    return read.error();
  return reader;
}

void TraceReader::set_end(std::uint64_t bytes) {
  size_bytes_ = std::min(size_bytes_, bytes);
  if (auto* const file = dynamic_cast<FileSource*>(source_.get())) file->set_end(bytes);
}

RecordingPlace TraceReader::begin() const { return {0, 0, {trace::kFileHeaderBytes, 0}}; }

Status TraceReader::deliver(EventSink& sink) {
  trace::Delivery delivery(*source_, sink,
                           std::max(memory_limit_bytes(size_bytes_), least_limit_bytes_));
  place_ = delivery.place();
  while (delivery.step() == trace::Delivery::Outcome::more) {
    place_ = delivery.place();
    if (progress_) progress_(delivery.byte_offset(), size_bytes_);
  }
  delivery.finish();
  return Done{};
}

}  // namespace gpumemprof
