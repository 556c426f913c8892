#include "ingest/gzip_source.h"

#include <zlib.h>

namespace gpumemprof {

struct GzipSource::Inflater {
  z_stream stream{};
  bool inside_member = false;
};

GzipSource::GzipSource(ByteSource& compressed, std::uint64_t most_bytes)
    : inflater_(std::make_unique<Inflater>()),
      compressed_(compressed),
      left_bytes_(most_bytes),
      input_(std::size_t{64} << 10) {
  constexpr int kGzipWindowBits = 15 + 16;
  GMP_CHECK(inflateInit2(&inflater_->stream, kGzipWindowBits) == Z_OK);
}

GzipSource::~GzipSource() { inflateEnd(&inflater_->stream); }

bool GzipSource::looks_like_gzip(std::span<const std::byte> start) {
  return start.size() >= 2 && start[0] == std::byte{0x1f} && start[1] == std::byte{0x8b};
}

Result<std::size_t> GzipSource::read(std::span<std::byte> out) {
  z_stream& stream = inflater_->stream;
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  while (stream.avail_out == out.size() && !finished_) {
    if (stream.avail_in == 0) {
      const Result<std::size_t> got = compressed_.read(input_);
      if (!got) return got.error();
      if (got.value() == 0) {
        finished_ = true;
        if (inflater_->inside_member) broken_ = "the gzip stream is truncated";
        break;
      }
      stream.next_in = reinterpret_cast<Bytef*>(input_.data());
      stream.avail_in = static_cast<uInt>(got.value());
    }
    inflater_->inside_member = true;
    const int outcome = inflate(&stream, Z_NO_FLUSH);
    if (outcome == Z_STREAM_END) {
      inflater_->inside_member = false;
      inflateReset(&stream);
    } else if (outcome != Z_OK && outcome != Z_BUF_ERROR) {
      finished_ = true;
      broken_ = "the gzip stream is damaged";
    }
  }
  const std::size_t got = out.size() - stream.avail_out;
  if (got > left_bytes_) {
    finished_ = true;
    broken_ = "it expands to far more than a snapshot of its size does";
    return std::size_t{0};
  }
  left_bytes_ -= got;
  return got;
}

}  // namespace gpumemprof
