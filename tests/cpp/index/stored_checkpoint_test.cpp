// A checkpoint that is stored as changes of another one is read as it was, and a forged one is
// refused.
#include "index/stored_checkpoint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <random>

#include "index/checkpoint_reader.h"
#include "index/indexed_run.h"

namespace gpumemprof {
namespace {

using Random = std::mt19937;

std::uint32_t below(Random& random, std::uint32_t limit) {
  return std::uniform_int_distribution<std::uint32_t>(0, limit - 1)(random);
}

OldAllocation some_allocation(Random& random, std::uint32_t birth) {
  OldAllocation old;
  old.address = std::uint64_t{random()} << below(random, 33);
  old.size_bytes = random();
  old.requested_bytes = old.size_bytes - below(random, 512);
  old.birth_event = birth;
  old.stack = StackId(below(random, 10));
  old.time_ns =
      below(random, 4) == 0 ? kUnknownTime : std::int64_t{below(random, 1U << 31U)} * 1000;
  old.source = static_cast<MemorySource>(below(random, kMemorySourceCount));
  return old;
}

SegmentState some_segment(Random& random) {
  SegmentState segment;
  segment.address = (std::uint64_t{random()} << 21U);
  segment.size_bytes = std::uint64_t{2} << 20U;
  segment.is_expandable = below(random, 2) == 0;
  return segment;
}

// Some of the base die, some wait for a stream, others are born.
DeviceCheckpoint later(const DeviceCheckpoint& base, Random& random, std::uint32_t survivors) {
  DeviceCheckpoint now;
  now.number = base.number + 1;
  now.event = base.event + 10'000;
  for (const OldAllocation& old : base.allocations) {
    if (below(random, 100) >= survivors) continue;
    now.allocations.push_back(old);
    now.allocations.back().is_pending = below(random, 20) == 0;
  }
  std::uint32_t birth = base.event;
  for (std::uint32_t born = below(random, 50); born > 0; --born)
    now.allocations.push_back(some_allocation(random, birth += 1 + below(random, 100)));
  for (const SegmentState& segment : base.segments) {
    if (below(random, 100) >= survivors) continue;
    now.segments.push_back(segment);
    if (below(random, 10) == 0) now.segments.back().size_bytes += 512;
  }
  for (std::uint32_t made = below(random, 5); made > 0; --made)
    now.segments.push_back(some_segment(random));
  std::ranges::sort(now.segments, {}, &SegmentState::address);
  return now;
}

DeviceCheckpoint first_checkpoint(Random& random) {
  DeviceCheckpoint first;
  for (std::uint32_t older = below(random, 20); older > 0; --older)
    first.allocations.push_back(some_allocation(random, kNoEvent));
  return later(first, random, 100);
}

void expect_equal(const DeviceCheckpoint& found, const DeviceCheckpoint& expected) {
  EXPECT_EQ(found.device, expected.device);
  EXPECT_EQ(found.number, expected.number);
  EXPECT_EQ(found.event, expected.event);
  EXPECT_EQ(found.allocations, expected.allocations);
  ASSERT_EQ(found.segments.size(), expected.segments.size());
  for (std::size_t row = 0; row < found.segments.size(); ++row) {
    EXPECT_EQ(found.segments[row].address, expected.segments[row].address);
    EXPECT_EQ(found.segments[row].size_bytes, expected.segments[row].size_bytes);
    EXPECT_EQ(found.segments[row].is_expandable, expected.segments[row].is_expandable);
  }
}

TEST(StoredCheckpoints, AreReadAsTheyWere) {
  Random random(17);
  for (int turn = 0; turn < 300; ++turn) {
    const DeviceCheckpoint base = first_checkpoint(random);
    const DeviceCheckpoint now = later(base, random, below(random, 101));
    for (const DeviceCheckpoint* against : {&base, static_cast<const DeviceCheckpoint*>(nullptr)}) {
      const CheckpointRows rows = rows_of(base);
      StoredCheckpoint stored = to_stored(now, against == nullptr ? nullptr : &rows);
      EXPECT_EQ(stored.base, against == nullptr ? now.number : base.number);
      DeviceCheckpoint found;
      ASSERT_TRUE(from_stored(stored, against, found));
      expect_equal(found, now);
    }
  }
}

// Nothing but the size follows from the order.
TEST(StoredCheckpoints, AreReadAsTheyWereInAnyOrder) {
  Random random(18);
  for (int turn = 0; turn < 100; ++turn) {
    DeviceCheckpoint base = first_checkpoint(random);
    DeviceCheckpoint now = later(base, random, 80);
    std::ranges::shuffle(base.allocations, random);
    std::ranges::shuffle(now.segments, random);
    const CheckpointRows rows = rows_of(base);
    StoredCheckpoint stored = to_stored(now, &rows);
    DeviceCheckpoint found;
    ASSERT_TRUE(from_stored(stored, &base, found));
    expect_equal(found, now);
  }
}

TEST(StoredCheckpoints, HoldOnlyWhatChanged) {
  Random random(19);
  DeviceCheckpoint base;
  for (std::uint32_t birth = 0; birth < 1000; ++birth)
    base.allocations.push_back(some_allocation(random, birth));
  DeviceCheckpoint now = base;
  now.number = 1;
  now.allocations.erase(now.allocations.begin() + 100, now.allocations.begin() + 200);
  now.allocations.push_back(some_allocation(random, 5000));
  const CheckpointRows rows = rows_of(base);
  const StoredCheckpoint stored = to_stored(now, &rows);
  EXPECT_EQ(added_rows(stored), 1U);
  EXPECT_LE(stored.allocations.changes.size(), 2U);
}

TEST(StoredCheckpoints, AreRefusedIfTheyDoNotFitTheBase) {
  Random random(20);
  std::size_t refused = 0;
  for (int turn = 0; turn < 300; ++turn) {
    const DeviceCheckpoint base = first_checkpoint(random);
    const CheckpointRows rows = rows_of(base);
    StoredCheckpoint stored = to_stored(later(base, random, 70), &rows);
    if (stored.allocations.changes.empty()) continue;
    ListChange& change =
        stored.allocations
            .changes[below(random, static_cast<std::uint32_t>(stored.allocations.changes.size()))];
    std::uint32_t& number =
        std::array{&change.kept, &change.left_out, &change.added}[below(random, 3)][0];
    number += below(random, 2) == 0 ? 1 + below(random, 5) : ~std::uint32_t{0} - number;
    DeviceCheckpoint found;
    EXPECT_FALSE(from_stored(stored, &base, found));
    EXPECT_LE(found.allocations.size(), base.allocations.size() + stored.allocations.added.size());
    ++refused;
  }
  EXPECT_GT(refused, 100U);
}

std::unique_ptr<IndexFile> file_of(const std::string& recording) {
  return IndexFile::open(index_path(recording), identity_of(recording).value());
}

TEST(StoredCheckpoints, OfALongRunAreMostlyChanges) {
  const std::unique_ptr<IndexFile> file = file_of(indexed_run().path);
  ASSERT_NE(file, nullptr);
  const IndexedDevice& device = file->directory().devices.front();
  std::size_t whole = 0;
  std::vector<std::uint32_t> bases;
  for (const PartPlace& place : device.states) {
    const std::optional<StoredCheckpoint> stored = file->read<StoredCheckpoint>(place);
    ASSERT_TRUE(stored);
    if (stored->base == stored->number) ++whole;
    bases.push_back(stored->base);
    // It is whole, or changes a whole one, or a middle that changes a whole one.
    ASSERT_LE(stored->base, stored->number);
    const std::uint32_t below = bases[bases[stored->base]];
    EXPECT_EQ(bases[below], below);
  }
  EXPECT_GE(whole, 1U);
  EXPECT_LT(whole, device.states.size() / 2);
}

// The index of a copy of the run, with each checkpoint forged.
class ForgedCheckpoints : public testing::Test {
 protected:
  void SetUp() override {
    path_ = run_path("forged.gmp");
    std::filesystem::copy_file(indexed_run().path, path_,
                               std::filesystem::copy_options::overwrite_existing);
  }
  void TearDown() override {
    std::filesystem::remove(path_);
    std::filesystem::remove(index_path(path_));
  }
  void forge(const std::function<void(StoredCheckpoint&)>& change) {
    const std::unique_ptr<IndexFile> file = file_of(indexed_run().path);
    std::unique_ptr<IndexFileWriter> writer = IndexFileWriter::create(index_path(path_), 3).value();
    IndexDirectory directory = file->directory();
    const auto copy = [&]<typename T>(PartPlace& place, T value) { place = writer->write(value); };
    copy(directory.names, *file->read<IndexedNames>(directory.names));
    copy(directory.definitions, *file->read<IndexedDefinitions>(directory.definitions));
    for (IndexedRows& rows : directory.rows)
      copy(rows.rows, *file->read<trace::DefinedRows>(rows.rows));
    copy(directory.overviews, *file->read<IndexedOverviews>(directory.overviews));
    for (PartPlace& place : directory.label_blocks)
      copy(place, *file->read<std::vector<LabelBlock>>(place));
    for (IndexedDevice& device : directory.devices) {
      for (PartPlace& place : device.buckets)
        copy(place, *file->read<std::vector<PyramidBucket>>(place));
      for (PartPlace& place : device.spans) copy(place, *file->read<StoredSpans>(place));
      for (PartPlace& place : device.states) {
        StoredCheckpoint stored = *file->read<StoredCheckpoint>(place);
        change(stored);
        copy(place, stored);
      }
    }
    ASSERT_TRUE(writer->close(directory));
  }
  // How many checkpoints can be read.
  [[nodiscard]] std::size_t readable() const {
    IndexState state = IndexState::missing;
    const std::unique_ptr<RunIndex> index = RunIndex::open(path_, state);
    EXPECT_EQ(state, IndexState::good);
    if (index == nullptr) return 0;
    const DeviceIndex device = index->devices().front();
    std::size_t found = 0;
    for (std::size_t number = 0; number < index->checkpoints(device).size(); ++number) {
      const Result<DeviceCheckpoint> read = index->checkpoint(device, number);
      if (read) {
        ++found;
      } else {
        EXPECT_NE(read.error().sentence().find("delete it"), std::string::npos);
      }
    }
    return found;
  }
  [[nodiscard]] static std::size_t all() {
    const RunIndex& index = *indexed_run().index;
    return index.checkpoints(index.devices().front()).size();
  }
  std::string path_;
};

TEST_F(ForgedCheckpoints, AreReadIfNothingChanged) {
  forge([](StoredCheckpoint&) {});
  EXPECT_EQ(readable(), all());
}

TEST_F(ForgedCheckpoints, MayNotReferToEachOther) {
  // Each to the one before, the first to itself: a chain.
  forge(
      [](StoredCheckpoint& stored) { stored.base = stored.number - (stored.number > 0 ? 1 : 0); });
  EXPECT_LT(readable(), all());
}

TEST_F(ForgedCheckpoints, MayNotReferToALaterOneOrToNone) {
  for (const std::uint32_t away : {1U, 1000U, ~std::uint32_t{0} / 2}) {
    forge([&](StoredCheckpoint& stored) { stored.base += away; });
    EXPECT_EQ(readable(), 0U);
  }
}

TEST_F(ForgedCheckpoints, MayNotTakeTheNumberOfAnother) {
  forge([](StoredCheckpoint& stored) { stored.number ^= 1U; });
  EXPECT_EQ(readable(), 0U);
}

TEST_F(ForgedCheckpoints, MayNotKeepMoreThanTheBaseHas) {
  forge([](StoredCheckpoint& stored) {
    for (ListChange& change : stored.allocations.changes) change.kept = ~std::uint32_t{0};
  });
  EXPECT_LT(readable(), all());
  EXPECT_GT(readable(), 0U);  // those that are whole
}

}  // namespace
}  // namespace gpumemprof
