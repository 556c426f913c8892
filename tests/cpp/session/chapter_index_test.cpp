// The index of a folder of chapters says what the folder says, and is made again when it changes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "event/sinks/forwarding_sink.h"
#include "index/indexed_run.h"
#include "report/leaks/leaks_json.h"
#include "session/changed_chapters.h"
#include "session/excerpt/passes.h"
#include "store/store.h"

namespace gpumemprof {
namespace {

using nlohmann::json;

class IndexOfChapters : public testing::TestWithParam<std::string_view> {};

json report_json(const Overview& overview, const Store& store) {
  json report = json::parse(overview_json(overview, store, kAllGroups));
  // What only a simulation of the whole run proves.
  for (json& device : report["devices"]) device.erase("oom_reports");
  return report;
}

TEST_P(IndexOfChapters, HasTheReportOfTheFolder) {
  int indexes = 0;
  for (std::uint32_t seed = 1; seed <= 3; ++seed) {
    const ScratchFolder folder;
    const std::string chapters = folder.file("many.gmp");
    make_chapters(chapters, GetParam(), seed);
    const IndexedRun run = indexed(chapters, 1'000 * seed, 700);
    if (run.index == nullptr) {  // The damage took the start of the run, so it is read whole.
      ASSERT_EQ(GetParam(), "damaged");
      EXPECT_FALSE(Recording::open(chapters).value()->store().origin().has_start);
      continue;
    }
    ++indexes;
    EXPECT_EQ(index_path(chapters), chapters + ".index");
    EXPECT_EQ(index_path(chapters + "/"), fs::canonical(chapters).string() + ".index");
    const json whole = report_json(run.whole->overview().value(), run.whole->store());
    const json found = report_json(run.index->at_peak(), run.index->store());
    EXPECT_TRUE(whole == found) << json::diff(whole, found).dump().substr(0, 2'000);
    const json whole_end =
        report_json(run.whole->overview({AskedMoment{AskedMoment::Kind::end, 0}, {}}).value(),
                    run.whole->store());
    const json found_end =
        report_json(overview_at_end(run.index->at_peak(), run.index->at_end()), run.index->store());
    EXPECT_TRUE(whole_end == found_end) << json::diff(whole_end, found_end).dump().substr(0, 2'000);
    const Origin& origin = run.index->store().origin();
    EXPECT_EQ(origin.chapters.size(), run.whole->store().origin().chapters.size());
    EXPECT_EQ(origin.steps.size(), run.whole->store().origin().steps.size());
  }
  EXPECT_GT(indexes, 0);
}

// Counts events, and reads the run once more in between.
class NestedReading final : public ForwardingSink {
 public:
  explicit NestedReading(RunPasses* passes) : ForwardingSink(store_), passes_(passes) {}

  void add_events(DeviceIndex /*device*/, EventColumns&& columns) override {
    events += columns.size();
    ++parts;
    if (passes_ == nullptr || parts != 3) return;
    NestedReading inner(nullptr);
    ASSERT_TRUE(passes_->deliver_again(inner));
    nested_events = inner.events;
  }

  std::size_t events = 0;
  std::size_t parts = 0;
  std::size_t nested_events = 0;

 private:
  RunPasses* passes_;
  Store store_;
};

TEST_P(IndexOfChapters, IsReadAgainWhileItIsRead) {
  const ScratchFolder folder;
  const std::string chapters = folder.file("many.gmp");
  make_chapters(chapters, GetParam(), 1);
  RunPasses passes(chapters, {});
  NestedReading alone(nullptr);
  ASSERT_TRUE(passes.deliver(alone));
  NestedReading outer(&passes);
  ASSERT_TRUE(passes.deliver(outer));
  EXPECT_GE(outer.parts, 3U);
  EXPECT_EQ(outer.events, alone.events);
  EXPECT_EQ(outer.nested_events, alone.events);
}

INSTANTIATE_TEST_SUITE_P(Changed, IndexOfChapters, testing::ValuesIn(kChangedChapters),
                         [](const auto& parameter) { return std::string(parameter.param); });

IndexState state_of(const std::string& recording) {
  IndexState state = IndexState::missing;
  RunIndex::open(recording, state);
  return state;
}

TEST(ChapterIndex, BelongsToOneFolderAsItWas) {
  const ScratchFolder folder;
  const std::string chapters = folder.file("many.gmp");
  const std::string other = folder.file("other.gmp");
  make_chapters(chapters, "whole", 1);
  make_chapters(other, "whole", 2);
  ASSERT_NE(indexed(chapters, 1'000, 700).index, nullptr);
  EXPECT_EQ(state_of(chapters), IndexState::good);
  EXPECT_EQ(state_of(chapters + "/"), IndexState::good);
  fs::copy_file(index_path(chapters), index_path(other));
  EXPECT_EQ(state_of(other), IndexState::stale);
  // A copy keeps its index.
  fs::copy(chapters, folder.file("copy.gmp"));
  fs::copy_file(index_path(chapters), index_path(folder.file("copy.gmp")));
  EXPECT_EQ(state_of(folder.file("copy.gmp")), IndexState::good);
  const std::vector<ChapterFile> all = list_chapters(chapters).value();
  std::ofstream(chapters + "/" + std::string(kSummaryName), std::ios::app) << "more\n";
  EXPECT_EQ(state_of(chapters), IndexState::stale);
  fs::remove(list_chapters(folder.file("copy.gmp")).value()[5].path);
  EXPECT_EQ(state_of(folder.file("copy.gmp")), IndexState::stale);
}

class EventCount final : public ForwardingSink {
 public:
  EventCount() : ForwardingSink(store_) {}
  void add_events(DeviceIndex /*device*/, EventColumns&& events) override {
    count_ += events.size();
  }
  [[nodiscard]] std::uint64_t count() const { return count_; }

 private:
  Store store_;
  std::uint64_t count_ = 0;
};

std::uint64_t events_of_pass(RunPasses& passes) {
  EventCount sink;
  const Status delivered = passes.deliver(sink);
  EXPECT_TRUE(delivered) << delivered.error().sentence();
  return sink.count();
}

TEST(ChapterIndex, IsMadeOfWhatTheFirstPassSawThoughTheRecorderGoesOn) {
  const ScratchFolder folder;
  const std::string chapters = folder.file("many.gmp");
  make_chapters(chapters, "whole", 1);
  const std::vector<ChapterFile> all = list_chapters(chapters).value();
  const std::string last = folder.file("last");
  const std::string before_last = folder.file("before_last");
  fs::rename(all.back().path, last);
  // The one that is being written.
  const ChapterFile& written = all[all.size() - 2];
  fs::copy_file(written.path, before_last);
  fs::resize_file(written.path, written.size_bytes / 2);
  RunPasses passes(chapters, {});
  const std::uint64_t events = events_of_pass(passes);
  fs::copy_file(before_last, written.path, fs::copy_options::overwrite_existing);
  fs::rename(last, all.back().path);
  fs::remove(all[3].path);
  EXPECT_EQ(events_of_pass(passes), events);
  RunPasses later(chapters, {});
  EXPECT_NE(events_of_pass(later), events);
}

TEST(ChapterIndex, IsNotWrittenToAPipe) {
  const ScratchFolder folder;
  const std::string chapters = folder.file("many.gmp");
  make_chapters(chapters, "whole", 1);
  ASSERT_EQ(::mkfifo(index_path(chapters).c_str(), 0600), 0);
  const auto maker = IndexMaker::create(chapters, {});
  ASSERT_FALSE(maker);
  EXPECT_THAT(maker.error().sentence(), testing::HasSubstr("many.gmp.index: is not a file"));
}

TEST(ChapterIndex, AnswersAboutARotatedFolderWithOneSentence) {
  const ScratchFolder folder;
  const std::string chapters = folder.file("many.gmp");
  make_chapters(chapters, "whole", 1);
  const IndexedRun run = indexed(chapters, 1'000, 700);
  ASSERT_NE(run.index, nullptr);
  const DeviceIndex device = run.index->devices().front();
  const std::vector<ChapterFile> all = list_chapters(chapters).value();
  for (std::size_t row = 0; row < 5; ++row) fs::remove(all[row].path);
  Store store;
  Result<std::unique_ptr<ExcerptSource>> source = run.index->excerpt(device, 0, 1'500);
  ASSERT_TRUE(source);
  const Status delivered = source.value()->deliver(store);
  ASSERT_FALSE(delivered);
  EXPECT_THAT(delivered.error().sentence(), testing::HasSubstr("many.gmp"));
}

// What is wrong with the folder, as its report says it.
std::string cut_of(const std::string& chapters) {
  const std::shared_ptr<const Recording> whole = Recording::open(chapters).value();
  const std::optional<Error> cut = whole->cut();
  return cut ? cut->sentence() : "";
}

std::vector<std::uint32_t> kept_in(const std::string& chapters) {
  std::vector<std::uint32_t> kept;
  const std::shared_ptr<const Recording> whole = Recording::open(chapters).value();
  for (const ChapterFigures& chapter : whole->store().origin().chapters) {
    if (chapter.is_kept) kept.push_back(chapter.number);
  }
  return kept;
}

class StrangeChapters : public testing::Test {
 protected:
  void SetUp() override {
    make_chapters(chapters_, "whole", 1);
    events_ = Recording::open(chapters_).value()->overview().value().events;
  }
  [[nodiscard]] std::string path(std::uint32_t number) const {
    return chapters_ + "/" + chapter_name(number);
  }
  // The index of what is left, whose report must be that of the folder read whole.
  void compare() const {
    const IndexedRun run = indexed(chapters_, 1'000, 700);
    ASSERT_NE(run.index, nullptr);
    EXPECT_EQ(report_json(run.whole->overview().value(), run.whole->store()),
              report_json(run.index->at_peak(), run.index->store()));
  }

  const ScratchFolder folder_;
  const std::string chapters_ = folder_.file("many.gmp");
  std::uint64_t events_ = 0;
};

TEST_F(StrangeChapters, UnderEachOthersNamesAreLeftOutAndNamed) {
  fs::rename(path(4), path(9'999));
  fs::rename(path(5), path(4));
  fs::rename(path(9'999), path(5));
  EXPECT_THAT(cut_of(chapters_),
              testing::AllOf(testing::HasSubstr("chapter-000004.gmp"),
                             testing::HasSubstr("it is chapter-000005.gmp under another name"),
                             testing::HasSubstr("1 other chapter is damaged too")));
  EXPECT_THAT(kept_in(chapters_), testing::Not(testing::Contains(testing::AnyOf(4, 5))));
  compare();
}

TEST_F(StrangeChapters, TheFirstUnderAnotherNameIsLeftOut) {
  fs::rename(path(1), path(9'999));
  EXPECT_THAT(
      cut_of(chapters_),
      testing::HasSubstr("chapter-009999.gmp: it is chapter-000001.gmp under another name"));
  compare();
}

TEST_F(StrangeChapters, CopiesAreNotCountedTwice) {
  fs::copy_file(path(4), chapters_ + "/chapter-4.gmp");
  EXPECT_EQ(Recording::open(chapters_).value()->overview().value().events, events_);
  EXPECT_EQ(cut_of(chapters_), "");
  fs::copy_file(path(4), path(9'999));
  EXPECT_EQ(Recording::open(chapters_).value()->overview().value().events, events_);
  EXPECT_THAT(cut_of(chapters_), testing::HasSubstr("it is chapter-000004.gmp under another name"));
}

TEST_F(StrangeChapters, ThatAreEmptyOrNoRecordingsAreNamed) {
  fs::resize_file(path(4), 0);
  EXPECT_THAT(cut_of(chapters_), testing::HasSubstr("chapter-000004.gmp: the file is empty"));
  EXPECT_THAT(kept_in(chapters_), testing::Not(testing::Contains(4)));
  std::ofstream(path(4)) << std::string(1'000, 'x');
  EXPECT_THAT(cut_of(chapters_), testing::HasSubstr("chapter-000004.gmp: not a gpumemprof trace"));
  EXPECT_THAT(kept_in(chapters_), testing::Not(testing::Contains(4)));
  compare();
}

TEST_F(StrangeChapters, TheLastOneMissingIsNamed) {
  const std::vector<ChapterFile> all = list_chapters(chapters_).value();
  fs::remove(all.back().path);
  EXPECT_THAT(cut_of(chapters_),
              testing::HasSubstr(chapter_name(all.back().number) + ": the file is missing"));
}

}  // namespace
}  // namespace gpumemprof
