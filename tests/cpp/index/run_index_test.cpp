// What an index says about a run equals what the whole run says.
#include "index/run_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "analysis/moment/pool_state.h"
#include "analysis/timeline/timeline.h"
#include "index/indexed_run.h"
#include "report/json/overview_json.h"
#include "session/excerpt/indexed_part.h"

namespace gpumemprof {
namespace {

// A training run, or a recording of the tests, in a copy.
class IndexedRuns : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == kTrainingRun) {
      run_ = &indexed_run();
    } else {
      const std::string copy = run_path(std::filesystem::path(GetParam()).filename().string());
      std::filesystem::copy_file(GetParam(), copy,
                                 std::filesystem::copy_options::overwrite_existing);
      own_ = indexed(copy, 1000, 300);
      run_ = &own_;
    }
    if (run_->whole == nullptr) GTEST_SKIP() << "it has no index";
    ASSERT_NE(run_->index, nullptr);
  }
  static constexpr const char* kTrainingRun = "training";
  const IndexedRun* run_ = nullptr;

 private:
  IndexedRun own_;
};

TEST_P(IndexedRuns, HaveTheReportOfTheRun) {
  const RunIndex& index = *run_->index;
  EXPECT_EQ(overview_json(index.at_peak(), index.store(), kAllGroups), run_->peak_json);
  const Overview at_end = overview_at_end(index.at_peak(), index.at_end());
  EXPECT_EQ(overview_json(at_end, index.store(), kAllGroups), run_->end_json);
}

void compare_bucket(const PyramidBucket& bucket, const DeviceRecord& record,
                    const Timeline& timeline, std::uint32_t first, std::uint32_t end) {
  const LiveRange range = timeline.allocated().range(first + 1, end + 1);
  EXPECT_EQ(bucket.min_allocated_bytes, range.min_bytes);
  ASSERT_EQ(bucket.max_allocated_bytes, range.max_bytes);
  ASSERT_EQ(position_after(bucket.max_event), range.max_position);
  EXPECT_EQ(bucket.at_max.allocated(), bucket.max_allocated_bytes);
  EXPECT_EQ(bucket.at_max, sources_at(record, record.labels, Moment::after(bucket.max_event)));
  EXPECT_EQ(bucket.first_time_ns, record.events.time_ns[first]);
  std::uint64_t least = ~std::uint64_t{0};
  std::uint64_t most = 0;
  for (std::uint32_t event = first; event < end; ++event) {
    const std::uint64_t reserved = timeline.reserved_at(position_after(event));
    least = std::min(least, reserved);
    most = std::max(most, reserved);
  }
  ASSERT_EQ(bucket.min_reserved_bytes, least);
  ASSERT_EQ(bucket.max_reserved_bytes, most);
}

TEST_P(IndexedRuns, HaveAPyramidThatEqualsTheTimeline) {
  for (const auto& device : run_->whole->store().devices()) {
    const DeviceRecord& record = *device;
    const Result<Pyramid> pyramid = run_->index->pyramid(record.device);
    ASSERT_TRUE(pyramid);
    ASSERT_EQ(pyramid->events, record.events.size());
    const Timeline timeline(record);
    const std::uint32_t size = pyramid->events_per_bucket;
    for (std::size_t row = 0; row < pyramid->buckets.size(); ++row) {
      const auto first = static_cast<std::uint32_t>(row * size);
      const auto end =
          static_cast<std::uint32_t>(std::min<std::size_t>(first + size, record.events.size()));
      compare_bucket(pyramid->buckets[row], record, timeline, first, end);
    }
  }
}

std::string block_text(const DeviceRecord& record, const PoolBlock& block) {
  std::string text = std::to_string(block.address) + " " + std::to_string(block.size_bytes);
  if (block.is_free()) return text + "\n";
  const std::uint32_t row = block.allocation.index;
  const std::uint32_t born = record.allocations.alloc_event[row];
  const Event birth = born == kNoEvent ? Event() : record.events.row(born);
  // Names are left out: an unlabelled input has the name of one that was made at the same place,
  // which may be outside the stretch.
  text += " " + std::string(memory_source_name(record.labels.source[row])) + " stack " +
          std::to_string(record.allocations.stack[row].index) + " module " +
          std::to_string(birth.module) + " time " + std::to_string(birth.time_ns);
  return text + (block.is_waiting ? " waiting\n" : "\n");
}

// What is in use at a moment, by address.
std::string state_at(const DeviceRecord& record, Moment moment) {
  const PoolState pool = pool_state_at(record, moment);
  std::string text;
  for (const PoolSegment& segment : pool.segments) {
    text += "segment " + std::to_string(segment.state.address) + " " +
            std::to_string(segment.state.size_bytes) + "\n";
    for (const PoolBlock& block : pool.blocks_of(segment)) text += block_text(record, block);
  }
  for (const PoolBlock& block : pool.strays) text += block_text(record, block);
  return text;
}

void compare_excerpt(const IndexedRun& run, const DeviceRecord& record, std::uint32_t from,
                     std::uint32_t to) {
  Result<std::unique_ptr<ExcerptSource>> source = run.index->excerpt(record.device, from, to);
  ASSERT_TRUE(source);
  // With the phases and sources of the whole run.
  const Result<std::shared_ptr<const Recording>> part =
      Recording::from_excerpt(*source.value(), "excerpt", [&] {
        return std::vector{known_part(source.value()->excerpt(),
                                      static_cast<std::uint32_t>(record.events.size()), 0)};
      });
  ASSERT_TRUE(part) << part.error().sentence();
  const Excerpt& excerpt = source.value()->excerpt();
  EXPECT_EQ(excerpt.first_event, from);
  EXPECT_EQ(excerpt.end_event, to);
  const DeviceRecord& read = *part.value()->store().devices().front();
  ASSERT_EQ(read.events.size(), excerpt.prelude + (to - from));
  for (const std::uint32_t event : {from, from + (to - from) / 3, from + (to - from) / 2, to - 1}) {
    ASSERT_EQ(state_at(read, Moment::after(excerpt.from_run(event))),
              state_at(record, Moment::after(event)))
        << "event " << event << " of " << from << " to " << to;
  }
}

TEST_P(IndexedRuns, HaveExcerptsThatEqualTheRun) {
  for (const auto& device : run_->whole->store().devices()) {
    const std::vector<std::uint32_t>& checkpoints = run_->index->checkpoints(device->device);
    ASSERT_GE(checkpoints.size(), 2U);
    EXPECT_EQ(checkpoints.front(), 0U);
    EXPECT_EQ(checkpoints.back(), device->events.size());
    for (std::size_t number = 0; number + 1 < checkpoints.size(); ++number) {
      const std::uint32_t from = checkpoints[number];
      const std::uint32_t to = checkpoints[number + 1];
      if (from < to) compare_excerpt(*run_, *device, from, to);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(IndexedTraining, HasManyCheckpoints) {
  const RunIndex& index = *indexed_run().index;
  EXPECT_GE(index.checkpoints(index.devices().front()).size(), 8U);
}

std::vector<std::string> indexed_recordings() {
  std::vector<std::string> found = {"training"};
  for (const auto& entry : std::filesystem::recursive_directory_iterator(GPUMEMPROF_TEST_DATA)) {
    if (entry.path().extension() == ".gmp" && entry.is_regular_file())
      found.push_back(entry.path().string());
  }
  std::ranges::sort(found);
  return found;
}

std::string test_name(const testing::TestParamInfo<std::string>& parameter) {
  const std::filesystem::path path(parameter.param);
  std::string name = path.parent_path().filename().string() + "_" + path.stem().string();
  for (char& letter : name) {
    if (std::isalnum(static_cast<unsigned char>(letter)) == 0) letter = '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(Data, IndexedRuns, testing::ValuesIn(indexed_recordings()), test_name);

}  // namespace
}  // namespace gpumemprof
