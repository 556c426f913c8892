// Blocks: the units a .gmp file grows by. Each is whole or damaged, never half read.
//
//   offset  bytes
//        0  4      sync: "GMPB"
//        4  1      kind
//        5  1      encoding: 0 stored, 1 one zstd frame
//        6  2      zero
//        8  4      number: 0 for the first block of the file, incremented for each block
//       12  4      content bytes, at most 16 MiB
//       16  4      stored bytes
//       20  8      checksum: XXH64 of the stored bytes, seeded with the XXH64 of bytes 0 to 19
//       28         the stored bytes
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/byte_source.h"
#include "trace/bytes_io.h"
#include "trace/format.h"

struct ZSTD_CCtx_s;
struct ZSTD_DCtx_s;

namespace gpumemprof::trace {

// The 16 bytes a file starts with.
void append_file_header(OutBytes& out);

class BlockPacker {
 public:
  // A level of 0 stores blocks as they are.
  explicit BlockPacker(int compression_level);
  BlockPacker(const BlockPacker&) = delete;
  BlockPacker& operator=(const BlockPacker&) = delete;
  ~BlockPacker();

  // Appends a block whose content is the parts one after the other. Parts of different kinds are
  // compressed with different statistics.
  void pack(BlockKind kind, std::span<const std::span<const std::uint8_t>> parts, OutBytes& out);
  void pack(BlockKind kind, std::span<const std::uint8_t> content, OutBytes& out) {
    pack(kind, std::span(&content, 1), out);
  }
  // Blocks are numbered; the numbers of those that never reached the file are reused.
  [[nodiscard]] std::uint32_t next_number() const { return next_number_; }
  void set_next_number(std::uint32_t number) { next_number_ = number; }

 private:
  // The size of the compressed content, or 0 if it would not be smaller.
  std::size_t compress(std::span<const std::span<const std::uint8_t>> parts,
                       std::size_t content_bytes, std::uint8_t* to);

  ZSTD_CCtx_s* context_ = nullptr;
  std::uint32_t next_number_ = 0;
};

// Where a block begins, so that a file can be read from there on.
struct BlockPlace {
  std::uint64_t byte_offset = 0;
  std::uint32_t number = 0;  // of the block
  bool operator==(const BlockPlace&) const = default;
};

struct Block {
  BlockKind kind = BlockKind::end;
  std::uint64_t byte_offset = 0;          // of its header in the file
  std::span<const std::uint8_t> content;  // valid until the next block is read
};

class BlockReader {
 public:
  // unfinished: the source ends inside a block; damage() says where.
  enum class Outcome : std::uint8_t { block, end_of_file, unfinished, damage };

  // The source is positioned after the file header.
  explicit BlockReader(ByteSource& source);
  BlockReader(const BlockReader&) = delete;
  BlockReader& operator=(const BlockReader&) = delete;
  ~BlockReader();

  Outcome next(Block& block);
  [[nodiscard]] std::uint64_t byte_offset() const {
    return offset_;
  }  // of the next block, or of the damaged one
  [[nodiscard]] const std::string& damage() const { return damage_; }
  // After `unfinished`: the source has been moved back to byte_offset().
  void resume() { damage_.clear(); }
  // Of the next block.
  [[nodiscard]] BlockPlace place() const { return {offset_, next_number_}; }
  // The source has been moved there.
  void go_on_at(const BlockPlace& place) {
    offset_ = place.byte_offset;
    next_number_ = place.number;
  }

 private:
  Outcome broken(std::string reason);
  Outcome unfinished(std::string reason);
  // As many bytes as are available, up to size.
  std::size_t fill(std::uint8_t* to, std::size_t size);
  bool unpack(Encoding encoding, std::size_t content_bytes);

  ByteSource& source_;
  ZSTD_DCtx_s* context_ = nullptr;
  std::vector<std::uint8_t> stored_;
  std::vector<std::uint8_t> content_;
  std::uint64_t offset_ = kFileHeaderBytes;
  std::uint32_t next_number_ = 0;
  std::string damage_;
};

}  // namespace gpumemprof::trace
