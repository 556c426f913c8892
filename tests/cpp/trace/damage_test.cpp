// A truncated, damaged or forged file never crashes a reader and is never silently wrong.
#include <gtest/gtest.h>

#include <random>

#include "support.h"
#include "trace/block.h"
#include "trace/checksum.h"
#include "trace/delivery.h"
#include "trace/format.h"

namespace gpumemprof::test {
namespace {

Bytes cut_at(const Bytes& bytes, std::size_t size) {
  return {bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)};
}

// Where the blocks of a valid file end.
std::vector<std::size_t> block_ends(const Bytes& bytes) {
  std::vector<std::size_t> ends = {trace::kFileHeaderBytes};
  while (ends.back() < bytes.size()) {
    const auto stored = trace::load<std::uint32_t>(bytes.data() + ends.back() + 16);
    ends.push_back(ends.back() + trace::kBlockHeaderBytes + stored);
  }
  return ends;
}

bool is_reported(const Opened& opened) {
  return opened.store == nullptr || opened.store->origin().cut ||
         ended(*opened.store) == kNotClosed;
}

TEST(DamagedTrace, opens_up_to_its_last_whole_block_wherever_it_is_cut) {
  const Bytes bytes = a_bit_of_everything();
  const std::vector<std::size_t> ends = block_ends(bytes);
  ASSERT_EQ(ends.back(), bytes.size());
  ASSERT_GE(ends.size(), 8U);
  std::string whole_blocks;  // what the blocks before the cut hold
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const Opened opened = open_bytes(cut_at(bytes, size));
    if (size < trace::kFileHeaderBytes) {
      EXPECT_FALSE(opened.refusal.empty()) << size;
      continue;
    }
    ASSERT_NE(opened.store, nullptr) << size;
    EXPECT_TRUE(is_reported(opened)) << size;
    const bool is_between_blocks = std::find(ends.begin(), ends.end(), size) != ends.end();
    EXPECT_EQ(opened.store->origin().cut.has_value(), !is_between_blocks) << size;
    if (is_between_blocks) {
      whole_blocks = describe_events(*opened.store);
    } else {
      const std::size_t last_end = *std::prev(std::upper_bound(ends.begin(), ends.end(), size));
      EXPECT_EQ(opened.store->origin().cut->byte_offset, last_end);
      EXPECT_EQ(describe_events(*opened.store), whole_blocks) << size;
    }
  }
}

TEST(DamagedTrace, is_never_silently_wrong_whichever_bit_is_flipped) {
  const Bytes bytes = a_bit_of_everything();
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      Bytes damaged = bytes;
      damaged[at] = static_cast<std::uint8_t>(damaged[at] ^ (1 << bit));
      const Opened opened = open_bytes(damaged);
      ASSERT_TRUE(is_reported(opened)) << "byte " << at << " bit " << bit;
      if (opened.store == nullptr) continue;
      const std::vector<std::size_t> ends = block_ends(bytes);
      ASSERT_TRUE(opened.store->origin().cut);
      EXPECT_EQ(opened.store->origin().cut->byte_offset,
                *std::prev(std::upper_bound(ends.begin(), ends.end(), at)));
    }
  }
}

TEST(DamagedTrace, is_cut_off_before_a_device_has_more_events_than_can_be_numbered) {
  const Bytes bytes = a_bit_of_everything();
  BufferSource source(std::as_bytes(std::span(bytes)));
  ASSERT_TRUE(trace::read_file_header(source, "run.gmp"));
  Store store;
  trace::Delivery delivery(source, store, std::uint64_t{1} << 30);
  delivery.set_most_events(1);
  while (delivery.step() == trace::Delivery::Outcome::more) {
  }
  delivery.finish();
  ASSERT_TRUE(store.origin().cut);
  EXPECT_NE(store.origin().cut->reason.find("has more than 1 events"), std::string::npos)
      << store.origin().cut->reason;
  for (const auto& device : store.devices()) EXPECT_LE(device->events.size(), 1U);
}

TEST(DamagedTrace, tells_when_a_block_is_missing_doubled_or_out_of_order) {
  const Bytes bytes = a_bit_of_everything();
  const std::vector<std::size_t> ends = block_ends(bytes);
  const auto piece = [&](std::size_t block) {
    return Bytes(bytes.begin() + static_cast<std::ptrdiff_t>(ends[block]),
                 bytes.begin() + static_cast<std::ptrdiff_t>(ends[block + 1]));
  };
  const auto assembled = [&](const std::vector<std::size_t>& blocks) {
    Bytes file = cut_at(bytes, trace::kFileHeaderBytes);
    for (const std::size_t block : blocks) {
      const Bytes next = piece(block);
      file.insert(file.end(), next.begin(), next.end());
    }
    return file;
  };
  for (const auto& order :
       std::vector<std::vector<std::size_t>>{{0, 1, 3, 4}, {0, 1, 2, 2, 3}, {0, 2, 1, 3}, {1}}) {
    const Opened opened = open_bytes(assembled(order));
    ASSERT_TRUE(opened.store->origin().cut);
    EXPECT_EQ(opened.store->origin().cut->reason, "a block is missing");
  }
}

TEST(DamagedTrace, tells_of_what_follows_the_end) {
  Bytes bytes = a_bit_of_everything();
  const std::string expected = describe(*open_bytes(bytes).store);
  bytes.push_back(0);
  const Opened opened = open_bytes(bytes);
  EXPECT_TRUE(opened.store->origin().cut);
  EXPECT_EQ(describe(*opened.store), expected);
}

TEST(DamagedTrace, does_not_claim_a_state_that_breaks_off) {
  const Bytes bytes = a_bit_of_everything();
  const std::vector<std::size_t> ends = block_ends(bytes);
  // The last blocks: the end's origin, its state, the end.
  const Opened before_state = open_bytes(cut_at(bytes, ends[ends.size() - 3] + 5));
  EXPECT_FALSE(before_state.store->origin().has_segments);
  EXPECT_TRUE(before_state.store->origin().has_start);
  const Opened after_state = open_bytes(cut_at(bytes, ends[ends.size() - 2] + 5));
  EXPECT_TRUE(after_state.store->origin().has_segments);
  const Opened nothing = open_bytes(cut_at(bytes, ends[2] + 5));
  EXPECT_FALSE(nothing.store->origin().has_start);
}

Bytes with_version(Bytes bytes, std::uint16_t version) {
  trace::put_fixed(bytes.data() + trace::kMagic.size(), version);
  trace::put_fixed(bytes.data() + 12,
                   static_cast<std::uint32_t>(trace::checksum(std::span(bytes).first(12))));
  return bytes;
}

TEST(TraceVersion, of_another_file_is_refused_with_both_named) {
  for (const auto& [version, hint] :
       {std::pair(0, "record again"), std::pair(2, "record again"),
        std::pair(trace::kVersion + 1, "open it with a newer gpumemprof")}) {
    const Opened opened =
        open_bytes(with_version(a_bit_of_everything(), static_cast<std::uint16_t>(version)));
    EXPECT_EQ(opened.store, nullptr);
    EXPECT_EQ(opened.refusal, "test.gmp, byte 0: the recording has format version " +
                                  std::to_string(version) + ", and this gpumemprof reads version " +
                                  std::to_string(trace::kVersion) + "; " + hint);
  }
}

// The same version is never another format: this file is not written anew.
TEST(TraceVersion, of_a_file_from_before_is_read_as_ever) {
  const Opened opened = open_bytes(read_bytes(GPUMEMPROF_TEST_DATA "/traces/everything.gmp"));
  ASSERT_NE(opened.store, nullptr) << opened.refusal;
  EXPECT_FALSE(opened.store->origin().cut);
  EXPECT_EQ(ended(*opened.store), "exit 0");
  Store expected;
  add_a_bit_of_everything(expected);
  EXPECT_EQ(describe(*opened.store), describe(expected));
}

TEST(ForgedTrace, with_an_unknown_optional_block_is_read_past_it) {
  trace::OutBytes out;
  trace::append_file_header(out);
  trace::BlockPacker packer(1);
  const std::uint8_t content[] = {1, 2, 3};
  packer.pack(static_cast<trace::BlockKind>(0xF0), content, out);
  const Bytes bytes(out.span().begin(), out.span().end());
  EXPECT_FALSE(open_bytes(bytes).store->origin().cut);
  packer.pack(static_cast<trace::BlockKind>(0x7F), content, out);
  const Bytes damaged(out.span().begin(), out.span().end());
  EXPECT_TRUE(open_bytes(damaged).store->origin().cut);
}

// A checksum does not prevent forging a block: any content must be safe to decode.
TEST(ForgedTrace, with_random_content_is_safe_to_open) {
  const Bytes good = a_bit_of_everything();
  std::mt19937 random(11);
  for (int round = 0; round < 20'000; ++round) {
    trace::OutBytes out;
    trace::append_file_header(out);
    trace::BlockPacker packer(0);
    // Some valid definitions, so that rows can be valid, then a block changed in a few places.
    Result<std::unique_ptr<TraceReader>> reader =
        TraceReader::from_bytes(std::as_bytes(std::span(good)), "good");
    BufferSource source(std::as_bytes(std::span(good).subspan(trace::kFileHeaderBytes)));
    trace::BlockReader blocks(source);
    trace::Block block;
    const auto victim = random() % 8;
    for (std::size_t number = 0; blocks.next(block) == trace::BlockReader::Outcome::block;
         ++number) {
      Bytes content(block.content.begin(), block.content.end());
      const bool is_changed = number == victim && !content.empty();
      for (auto changes = is_changed ? 1 + random() % 4 : 0; changes > 0; --changes) {
        content[random() % content.size()] = static_cast<std::uint8_t>(random());
      }
      if (is_changed && random() % 8 == 0) content.resize(random() % content.size());
      packer.pack(block.kind, content, out);
    }
    const Opened opened = open_bytes(Bytes(out.span().begin(), out.span().end()));
    ASSERT_NE(opened.store, nullptr);
    (void)describe(*opened.store);
  }
}

// Repeating events without times compress without limit: a few bytes could fill the machine's
// memory.
TEST(DamagedTrace, a_bomb_is_cut_where_it_takes_more_than_files_of_its_size_do) {
  const TempFolder folder;
  const std::string path = folder.file("bomb.gmp");
  constexpr std::size_t kBlocks = 48;
  TraceOptions options;
  options.events_per_block = trace::kMaxBlockEvents;
  {
    const std::unique_ptr<TraceWriter> writer = open_writer(path, options);
    EventColumns events;
    Event event;
    event.action = Action::alloc;
    event.address = 0x7f0000000000;
    event.size_bytes = 512;
    event.stream = writer->add_stream(0);
    for (std::size_t row = 0; row < trace::kMaxBlockEvents; ++row) events.push_back(event);
    for (std::size_t block = 0; block < kBlocks; ++block) writer->append_events(0, events);
    ASSERT_TRUE(writer->close("exit 0"));
  }
  const std::uint64_t file_bytes = std::filesystem::file_size(path);
  ASSERT_LT(file_bytes, 100'000U);
  const auto open = [&](std::uint64_t allowed_bytes) {
    auto store = std::make_unique<Store>();
    auto reader = TraceReader::open(path);
    reader.value()->allow_memory(allowed_bytes);
    EXPECT_TRUE(reader.value()->deliver(*store));
    return store;
  };
  const auto cut = open(0);
  ASSERT_TRUE(cut->origin().cut);
  EXPECT_NE(cut->origin().cut->reason.find("GPUMEMPROF_MAX_MEMORY"), std::string::npos);
  EXPECT_LT(cut->event_count() * 80, (std::uint64_t{300} << 20) + 2048 * file_bytes);
  const auto trusted = open(std::uint64_t{8} << 30);
  EXPECT_FALSE(trusted->origin().cut);
  EXPECT_EQ(trusted->event_count(), kBlocks * trace::kMaxBlockEvents);
}

}  // namespace
}  // namespace gpumemprof::test
