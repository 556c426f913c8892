// The checksum of blocks is XXH64, as published and as zstd computes it.
#include "trace/checksum.h"

#include <gtest/gtest.h>
#include <zstd.h>

#include <random>
#include <string_view>
#include <vector>

#include "trace/bytes_io.h"

namespace gpumemprof {
namespace {

std::uint64_t checksum_of(std::string_view text, std::uint64_t seed = 0) {
  return trace::checksum({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}, seed);
}

// A zstd frame ends with the low half of the XXH64 of its content.
std::uint32_t checksum_by_zstd(const std::vector<std::uint8_t>& content) {
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  std::vector<std::uint8_t> frame(ZSTD_compressBound(content.size()) + 4);
  const std::size_t size =
      ZSTD_compress2(context, frame.data(), frame.size(), content.data(), content.size());
  ZSTD_freeCCtx(context);
  EXPECT_FALSE(ZSTD_isError(size));
  return trace::load<std::uint32_t>(frame.data() + size - 4);
}

TEST(Checksum, is_xxh64) {
  EXPECT_EQ(checksum_of(""), 0xEF46DB3751D8E999ULL);
  EXPECT_EQ(checksum_of("a"), 0xD24EC4F1A98C6E5BULL);
  EXPECT_EQ(checksum_of("abc"), 0x44BC2CF5AD770999ULL);
}

TEST(Checksum, depends_on_the_seed) {
  for (const std::string_view text : {"", "abc", "longer than the thirty-two bytes of one round"})
    EXPECT_NE(checksum_of(text, 1), checksum_of(text));
}

TEST(Checksum, equals_that_of_zstd_at_every_length) {
  std::mt19937 random(1);
  std::vector<std::uint8_t> content;
  for (int length = 0; length < 300; ++length) {
    EXPECT_EQ(static_cast<std::uint32_t>(trace::checksum(content)), checksum_by_zstd(content))
        << length;
    content.push_back(static_cast<std::uint8_t>(random()));
  }
}

}  // namespace
}  // namespace gpumemprof
