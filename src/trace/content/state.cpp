#include "trace/content/state.h"

#include <algorithm>

#include "trace/format.h"

namespace gpumemprof::trace {
namespace {

constexpr std::size_t kBlocksPerRecord = std::size_t{1} << 15;

constexpr std::uint8_t kIsSmall = 1;
constexpr std::uint8_t kIsExpandable = 2;
constexpr std::uint8_t kContinues = 4;  // the same segment as the record before
constexpr std::uint8_t kGoesOn = 8;     // its remaining blocks are in the next record

constexpr std::uint8_t kStateMask = 3;
constexpr std::uint8_t kFollows = 4;  // starts where the block before it ends
constexpr std::uint8_t kIsExact = 8;  // requested bytes equal the block's size

std::uint64_t row_or_none(std::uint32_t row) {
  return row == StackId::kNone ? 0 : std::uint64_t{row} + 1;
}

template <typename T>
T take_row(InBytes& in, const std::vector<T>& known, T none) {
  const std::uint64_t row = in.below(known.size() + 1);
  return row == 0 ? none : known[row - 1];
}

void put_block(OutBytes& out, const BlockState& block, std::uint64_t expected_address) {
  const bool follows = block.address == expected_address;
  const bool is_exact = block.requested_bytes == block.size_bytes;
  out.byte(static_cast<std::uint8_t>(static_cast<std::uint8_t>(block.state) |
                                     (follows ? kFollows : 0) | (is_exact ? kIsExact : 0)));
  if (!follows) out.signed_varint(static_cast<std::int64_t>(block.address - expected_address));
  out.varint(block.size_bytes);
  if (!is_exact) out.varint(block.requested_bytes);
  out.varint(row_or_none(block.stack.index));
}

BlockState take_block(InBytes& in, const DefinitionMap& definitions,
                      std::uint64_t expected_address) {
  BlockState block;
  const std::uint8_t flags = in.byte();
  if ((flags & kStateMask) > static_cast<std::uint8_t>(BlockStateKind::active_pending_free))
    in.fail();
  block.state = static_cast<BlockStateKind>(flags & kStateMask);
  block.address = expected_address;
  if ((flags & kFollows) == 0) block.address += static_cast<std::uint64_t>(in.signed_varint());
  block.size_bytes = in.varint();
  block.requested_bytes = (flags & kIsExact) != 0 ? block.size_bytes : in.varint();
  block.stack = take_row(in, definitions.stacks(), StackId());
  return block;
}

}  // namespace

std::size_t StateEncoder::add(const SegmentState& segment, std::span<const BlockState> blocks,
                              std::size_t first) {
  const std::size_t count = std::min(kBlocksPerRecord, blocks.size() - first);
  const bool goes_on = first + count < blocks.size();
  records_.byte(static_cast<std::uint8_t>((segment.is_small ? kIsSmall : 0) |
                                          (segment.is_expandable ? kIsExpandable : 0) |
                                          (first > 0 ? kContinues : 0) | (goes_on ? kGoesOn : 0)));
  if (first == 0) {
    records_.signed_varint(segment.device);
    records_.varint(segment.address);
    records_.varint(segment.size_bytes);
    records_.varint(segment.stream);
    records_.varint(row_or_none(segment.pool));
    records_.varint(row_or_none(segment.stack.index));
  }
  records_.varint(count);
  std::uint64_t expected_address =
      first == 0 ? segment.address : blocks[first - 1].address + blocks[first - 1].size_bytes;
  for (const BlockState& block : blocks.subspan(first, count)) {
    put_block(records_, block, expected_address);
    expected_address = block.address + block.size_bytes;
  }
  ++count_;
  return count;
}

void StateEncoder::encode(OutBytes& out, bool is_whole) {
  out.byte(static_cast<std::uint8_t>(edge_));
  out.byte(is_whole ? 1 : 0);
  out.varint(count_);
  out.bytes(records_.span());
  records_.clear();
  count_ = 0;
  owes_whole_ = !is_whole;
}

bool StateDecoder::decode(InBytes in, const DefinitionMap& definitions, EventSink& sink) {
  const std::uint8_t edge = in.byte();
  const std::uint8_t is_whole = in.byte();
  if (edge > 1 || is_whole > 1) return false;
  is_whole_[edge] = false;
  for (std::size_t count = in.count(); count > 0 && in.ok(); --count) {
    if (!decode_segment(in, definitions)) return false;
    if (!is_segment_whole_) continue;
    sink.add_segment(static_cast<StateEdge>(edge), segment_, blocks_);
    memory_bytes_ += sizeof(SegmentState) + blocks_.size() * sizeof(BlockState);
  }
  if (!in.is_spent()) return false;
  is_whole_[edge] = is_whole == 1 && is_segment_whole_;
  return true;
}

bool StateDecoder::decode_segment(InBytes& in, const DefinitionMap& definitions) {
  const std::uint8_t flags = in.byte();
  const bool continues = (flags & kContinues) != 0;
  if (continues == is_segment_whole_) return false;
  if (!continues) {
    const std::int64_t device = in.signed_varint();
    if (device < kHostDevice || device > std::numeric_limits<DeviceIndex>::max()) return false;
    segment_.device = static_cast<DeviceIndex>(device);
    segment_.address = in.varint();
    segment_.size_bytes = in.varint();
    const std::uint64_t stream = in.below(definitions.streams().size());
    if (!in.ok()) return false;
    segment_.stream = definitions.streams()[stream];
    segment_.pool = take_row(in, definitions.pools(), kNoPool);
    segment_.stack = take_row(in, definitions.stacks(), StackId());
    segment_.is_small = (flags & kIsSmall) != 0;
    segment_.is_expandable = (flags & kIsExpandable) != 0;
    blocks_.clear();
  }
  std::uint64_t expected_address =
      blocks_.empty() ? segment_.address : blocks_.back().address + blocks_.back().size_bytes;
  for (std::size_t count = in.count(); count > 0 && in.ok(); --count) {
    blocks_.push_back(take_block(in, definitions, expected_address));
    expected_address = blocks_.back().address + blocks_.back().size_bytes;
  }
  is_segment_whole_ = (flags & kGoesOn) == 0;
  return in.ok();
}

}  // namespace gpumemprof::trace
