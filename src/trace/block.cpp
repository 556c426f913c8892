#include "trace/block.h"

#include <zstd.h>

#include <algorithm>
#include <new>

#include "base/error.h"
#include "trace/checksum.h"

namespace gpumemprof::trace {
namespace {

constexpr std::size_t kSignedHeaderBytes = 20;  // bytes the checksum covers
// A part smaller than this does not pay for its own statistics.
constexpr std::size_t kOwnStatisticsBytes = 2048;
// What ending a zstd block early may add to its bound, for every part.
constexpr std::size_t kPartOverheadBytes = 32;

std::size_t total_bytes(std::span<const std::span<const std::uint8_t>> parts) {
  std::size_t bytes = 0;
  for (const auto& part : parts) bytes += part.size();
  return bytes;
}

// Space for the content, compressed or not.
std::size_t bound_bytes(std::size_t content_bytes, std::size_t parts) {
  return ZSTD_compressBound(content_bytes) + parts * kPartOverheadBytes;
}

std::uint64_t block_checksum(const std::uint8_t* header, std::span<const std::uint8_t> stored) {
  return checksum(stored, checksum({header, kSignedHeaderBytes}));
}

}  // namespace

void append_file_header(OutBytes& out) {
  const std::size_t start = out.size();
  out.bytes(kMagic);
  out.fixed(kVersion);
  out.fixed(std::uint16_t{0});
  out.fixed(static_cast<std::uint32_t>(checksum(out.span().subspan(start))));
}

BlockPacker::BlockPacker(int compression_level) {
  if (compression_level == 0) return;
  context_ = ZSTD_createCCtx();
  if (context_ == nullptr) throw std::bad_alloc();
  ZSTD_CCtx_setParameter(context_, ZSTD_c_compressionLevel, compression_level);
  ZSTD_CCtx_setParameter(context_, ZSTD_c_contentSizeFlag, 0);
}

BlockPacker::~BlockPacker() { ZSTD_freeCCtx(context_); }

void BlockPacker::pack(BlockKind kind, std::span<const std::span<const std::uint8_t>> parts,
                       OutBytes& out) {
  const std::size_t content_bytes = total_bytes(parts);
  GMP_CHECK(content_bytes <= kMaxBlockBytes);
  std::uint8_t* const header =
      out.room(kBlockHeaderBytes + bound_bytes(content_bytes, parts.size()));
  std::uint8_t* const body = header + kBlockHeaderBytes;
  std::size_t stored_bytes = compress(parts, content_bytes, body);
  const Encoding encoding = stored_bytes != 0 ? Encoding::zstd : Encoding::stored;
  if (encoding == Encoding::stored) {
    for (const auto& part : parts) {
      std::copy(part.begin(), part.end(), body + stored_bytes);
      stored_bytes += part.size();
    }
  }
  std::uint8_t* at = std::copy(kSync.begin(), kSync.end(), header);
  *at++ = static_cast<std::uint8_t>(kind);
  *at++ = static_cast<std::uint8_t>(encoding);
  at = put_fixed(at, std::uint16_t{0});
  at = put_fixed(at, next_number_++);
  at = put_fixed(at, static_cast<std::uint32_t>(content_bytes));
  at = put_fixed(at, static_cast<std::uint32_t>(stored_bytes));
  put_fixed(at, block_checksum(header, {body, stored_bytes}));
  out.end_at(body + stored_bytes);
}

std::size_t BlockPacker::compress(std::span<const std::span<const std::uint8_t>> parts,
                                  std::size_t content_bytes, std::uint8_t* to) {
  if (context_ == nullptr || content_bytes == 0) return 0;
  ZSTD_CCtx_reset(context_, ZSTD_reset_session_only);
  ZSTD_CCtx_setPledgedSrcSize(context_, content_bytes);
  ZSTD_outBuffer output{to, bound_bytes(content_bytes, parts.size()), 0};
  std::size_t since_flush = 0;
  for (std::size_t index = 0; index < parts.size(); ++index) {
    ZSTD_inBuffer input{parts[index].data(), parts[index].size(), 0};
    since_flush += input.size;
    const bool is_last = index + 1 == parts.size();
    const bool next_is_large = !is_last && parts[index + 1].size() >= kOwnStatisticsBytes;
    const bool ends_here = since_flush >= kOwnStatisticsBytes || next_is_large;
    const ZSTD_EndDirective how =
        is_last ? ZSTD_e_end : (ends_here ? ZSTD_e_flush : ZSTD_e_continue);
    const std::size_t left = ZSTD_compressStream2(context_, &output, &input, how);
    if (ZSTD_isError(left) != 0 || input.pos != input.size) return 0;
    if (how != ZSTD_e_continue && left != 0) return 0;
    if (how == ZSTD_e_flush) since_flush = 0;
  }
  return output.pos < content_bytes ? output.pos : 0;
}

BlockReader::BlockReader(ByteSource& source) : source_(source), context_(ZSTD_createDCtx()) {
  if (context_ == nullptr) throw std::bad_alloc();
}

BlockReader::~BlockReader() { ZSTD_freeDCtx(context_); }

BlockReader::Outcome BlockReader::broken(std::string reason) {
  damage_ = std::move(reason);
  return Outcome::damage;
}

BlockReader::Outcome BlockReader::unfinished(std::string reason) {
  damage_ = std::move(reason);
  return Outcome::unfinished;
}

std::size_t BlockReader::fill(std::uint8_t* to, std::size_t size) {
  std::size_t have = 0;
  while (have < size) {
    const Result<std::size_t> got =
        source_.read(std::as_writable_bytes(std::span(to + have, size - have)));
    if (!got) {
      damage_ = got.error().message;
      break;
    }
    if (got.value() == 0) break;
    have += got.value();
  }
  return have;
}

BlockReader::Outcome BlockReader::next(Block& block) {
  std::uint8_t header[kBlockHeaderBytes];
  const std::size_t have = fill(header, kBlockHeaderBytes);
  if (!damage_.empty()) return Outcome::damage;
  if (have == 0) return Outcome::end_of_file;
  if (have < kBlockHeaderBytes) return unfinished("the file ends inside a block header");
  InBytes in({header, kBlockHeaderBytes});
  const std::span<const std::uint8_t> sync = in.bytes(kSync.size());
  const auto kind = static_cast<BlockKind>(in.byte());
  const std::uint8_t encoding = in.byte();
  const auto zero = in.fixed<std::uint16_t>();
  const auto number = in.fixed<std::uint32_t>();
  const auto content_bytes = in.fixed<std::uint32_t>();
  const auto stored_bytes = in.fixed<std::uint32_t>();
  const auto expected = in.fixed<std::uint64_t>();
  const bool is_sane = std::memcmp(sync.data(), kSync.data(), kSync.size()) == 0 && encoding <= 1 &&
                       zero == 0 && content_bytes <= kMaxBlockBytes &&
                       stored_bytes <= content_bytes;
  if (!is_sane) return broken("a block header is damaged");
  stored_.resize(stored_bytes);
  const std::size_t got = fill(stored_.data(), stored_bytes);
  if (!damage_.empty()) return Outcome::damage;
  // A header with a wrong size looks the same as a truncated file; both end here.
  if (got < stored_bytes) return unfinished("the file ends inside a block");
  if (block_checksum(header, stored_) != expected)
    return broken("a block does not match its checksum");
  if (number != next_number_) return broken("a block is missing");
  if (!unpack(static_cast<Encoding>(encoding), content_bytes))
    return broken("a block cannot be decompressed");
  ++next_number_;
  block = {kind, offset_, content_};
  offset_ += kBlockHeaderBytes + stored_bytes;
  return Outcome::block;
}

bool BlockReader::unpack(Encoding encoding, std::size_t content_bytes) {
  if (encoding == Encoding::stored) {
    content_.swap(stored_);
    return content_.size() == content_bytes;
  }
  content_.resize(content_bytes);
  const std::size_t got =
      ZSTD_decompressDCtx(context_, content_.data(), content_bytes, stored_.data(), stored_.size());
  return ZSTD_isError(got) == 0 && got == content_bytes;
}

}  // namespace gpumemprof::trace
