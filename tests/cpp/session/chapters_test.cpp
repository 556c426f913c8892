// A recording in chapters says what the same run says in one file; where chapters are missing, the
// figures after the gap are exact again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "follow/followed_run.h"
#include "report/json/overview_json.h"
#include "session/gmp_file.h"
#include "session/recorded_chapters.h"
#include "session/recording.h"
#include "trace/chapters/chapter_folder.h"
#include "trace/chapters/summary.h"

namespace gpumemprof {
namespace {

std::shared_ptr<const Recording> open(const std::string& path) {
  Result<std::shared_ptr<const Recording>> recording = Recording::open(path);
  EXPECT_TRUE(recording.ok()) << (recording ? "" : recording.error().sentence());
  return recording ? recording.value() : nullptr;
}

void replace_all(std::string& text, const std::string& what, const std::string& by) {
  for (std::size_t at = text.find(what); at != std::string::npos;
       at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
}

// Without what only a folder has, and without main memory, which is stored when it has changed.
std::string report_of(const Recording& recording) {
  const Result<Overview> overview = recording.overview();
  EXPECT_TRUE(overview.ok());
  std::string text = overview_json(overview.value(), recording.store(), kAllGroups);
  replace_all(text, recording.path(), "PATH");
  replace_all(text, R"("summarised": null)", "SUMMARISED");
  replace_all(text, R"("summarised":null)", "SUMMARISED");
  const std::size_t at = text.find("\"summarised\"");
  if (at != std::string::npos) text.replace(at, text.find('}', at) + 1 - at, "SUMMARISED");
  for (std::size_t fact = text.find("\"host_"); fact != std::string::npos;
       fact = text.find("\"host_")) {
    const std::size_t line = text.rfind('\n', fact) + 1;
    text.erase(line, text.find('\n', fact) + 1 - line);
  }
  return text;
}

class Chapters : public ::testing::TestWithParam<const char*> {};

TEST_P(Chapters, say_what_one_file_says) {
  for (std::uint32_t seed = 1; seed <= 3; ++seed) {
    const ScratchFolder folder;
    const std::string file = folder.file("one.gmp");
    const std::string chapters = folder.file("many.gmp");
    Workload run;
    run.settings = GetParam();
    run.seed = seed;
    if (seed == 3) run.device_bytes = std::uint64_t{600} << 20;  // runs out of memory now and then
    const Truth truth = record(run, {options_of(file, 0), options_of(chapters, kEverything)});
    EXPECT_GT(list_chapters(chapters).value().size(), 8);
    const auto one = open(file);
    const auto many = open(chapters);
    EXPECT_EQ(report_of(*one), report_of(*many));
    EXPECT_EQ(many->replays()[0].peak.allocated_bytes, truth.peak_allocated_bytes);
    EXPECT_EQ(many->replays()[0].exact_from_event, 0);
  }
}

TEST_P(Chapters, are_exact_again_after_a_gap) {
  for (std::uint32_t seed = 1; seed <= 6; ++seed) {
    const ScratchFolder folder;
    const std::string chapters = folder.file("many.gmp");
    Workload run;
    run.settings = GetParam();
    run.seed = seed;
    const Truth truth = record(run, {options_of(chapters, kEverything)});
    std::mt19937 random(seed);
    const std::vector<ChapterFile> all = list_chapters(chapters).value();
    for (const ChapterFile& one : all) {
      if (one.number != all.back().number && random() % 3 != 0) fs::remove(one.path);
    }
    const auto recording = open(chapters);
    const DeviceReplay& replay = recording->replays()[0];
    EXPECT_EQ(replay.contradictions, 0);
    EXPECT_EQ(replay.exact_from_event, 0);
    EXPECT_EQ(replay.end.totals.allocated_bytes, truth.allocated_bytes);
    EXPECT_EQ(replay.end.totals.reserved_bytes, truth.reserved_bytes);
    const Result<Overview> overview = recording->overview();
    ASSERT_TRUE(overview);
    const Completeness& found = overview.value().completeness;
    EXPECT_FALSE(found.is_whole());
    ASSERT_TRUE(found.made && found.lost);
    EXPECT_EQ(found.lost->total(), 0);
    EXPECT_EQ(found.made->total(), found.recorded.total() + found.summarised.total());
    EXPECT_EQ(found.exact_until_ns, kUnknownTime);
  }
}

TEST_P(Chapters, open_alone) {
  const ScratchFolder folder;
  const std::string chapters = folder.file("many.gmp");
  Workload run;
  run.settings = GetParam();
  const Truth truth = record(run, {options_of(chapters, kEverything)});
  const auto last = open(list_chapters(chapters).value().back().path);
  EXPECT_EQ(last->replays()[0].exact_from_event, 0);
  EXPECT_EQ(last->replays()[0].end.totals.allocated_bytes, truth.allocated_bytes);
  EXPECT_EQ(last->replays()[0].end.totals.reserved_bytes, truth.reserved_bytes);
}

TEST_P(Chapters, are_followed_from_one_to_the_next) {
  const ScratchFolder folder;
  const std::string chapters = folder.file("many.gmp");
  Workload run;
  run.settings = GetParam();
  const Truth truth = record(run, {options_of(chapters, kEverything)});
  const std::vector<ChapterFile> all = list_chapters(chapters).value();
  // Appears file by file, in two halves, under the follower's eyes; two chapters never do.
  const std::string growing = folder.file("growing.gmp");
  fs::create_directory(growing);
  std::unique_ptr<FollowedRun> followed;
  std::uint64_t bytes_before = 0;
  for (const ChapterFile& one : all) {
    if (one.number == 4 || one.number == 5) continue;
    std::ifstream from(one.path, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(from), std::istreambuf_iterator<char>()};
    const std::string to = growing + "/" + chapter_name(one.number);
    for (const std::size_t part : {bytes.size() / 2, bytes.size()}) {
      std::ofstream(to, std::ios::binary | std::ios::trunc)
          .write(bytes.data(), static_cast<std::streamsize>(part));
      if (followed == nullptr) followed = FollowedRun::open(growing).value();
      const Result<LiveReport> report = followed->read(kEverything, 5, 5);
      ASSERT_TRUE(report) << report.error().sentence();
      EXPECT_GE(report.value().file_bytes, bytes_before);
      bytes_before = report.value().file_bytes;
    }
  }
  const Result<LiveReport> report = followed->read(kEverything, 5, 5);
  ASSERT_TRUE(report);
  ASSERT_TRUE(report.value().ending);
  EXPECT_EQ(report.value().ending->reason, "stop");
  ASSERT_EQ(report.value().devices.size(), 1);
  EXPECT_EQ(report.value().devices[0].allocated_bytes, truth.allocated_bytes);
  EXPECT_EQ(report.value().devices[0].reserved_bytes, truth.reserved_bytes);
  EXPECT_TRUE(report.value().devices[0].is_exact);
}

INSTANTIATE_TEST_SUITE_P(settings, Chapters,
                         ::testing::Values("", "expandable_segments:True",
                                           "max_split_size_mb:32,roundup_power2_divisions:4"));

TEST(ChapterFolder, keeps_the_peak_and_stays_within_its_size) {
  const ScratchFolder folder;
  const std::string chapters = folder.file("many.gmp");
  Workload run;
  run.operations = 60'000;
  constexpr std::uint64_t kKeep = 800'000;
  const Truth truth = record(run, {options_of(chapters, kKeep)});
  std::uint64_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(chapters)) bytes += entry.file_size();
  const std::vector<ChapterFile> kept = list_chapters(chapters).value();
  EXPECT_GT(kept.back().number, kept.size());
  EXPECT_LE(bytes, kKeep);
  EXPECT_EQ(kept.front().number, 1);
  const auto recording = open(chapters);
  EXPECT_EQ(recording->replays()[0].peak.allocated_bytes, truth.peak_allocated_bytes);
  EXPECT_EQ(recording->replays()[0].peak_reserved_bytes, truth.peak_reserved_bytes);
  EXPECT_EQ(recording->replays()[0].end.totals.allocated_bytes, truth.allocated_bytes);
  const Origin& origin = recording->store().origin();
  ASSERT_EQ(origin.chapters.size(), kept.back().number);
  std::uint64_t highest = 0;
  std::uint64_t events = 0;
  for (const ChapterFigures& chapter : origin.chapters) {
    ASSERT_TRUE(chapter.has_figures);
    ASSERT_EQ(chapter.devices.size(), 1);
    highest = std::max(highest, chapter.devices[0].peak_allocated_bytes);
    events += chapter.events;
  }
  EXPECT_EQ(highest, truth.peak_allocated_bytes);
  const Completeness found = recording->overview().value().completeness;
  ASSERT_TRUE(found.made);
  EXPECT_EQ(events, found.made->total());
  // Every step is there, alone or with its neighbours.
  std::uint32_t next = 1;
  for (const StepSummary& step : origin.steps) {
    EXPECT_EQ(step.first, next);
    next = step.last + 1;
    EXPECT_LE(step.floor_bytes, step.end_bytes);
    EXPECT_LE(step.end_bytes, step.peak_bytes);
    EXPECT_LE(step.peak_bytes, truth.peak_allocated_bytes);
  }
  EXPECT_EQ(next, 300);  // the last one has not ended
}

TEST(ChapterFolder, opens_wherever_its_last_chapter_is_cut_off) {
  const ScratchFolder folder;
  const std::string chapters = folder.file("many.gmp");
  Workload run;
  run.operations = 2'500;
  record(run, {options_of(chapters, kEverything)});
  const ChapterFile last = list_chapters(chapters).value().back();
  const std::uint64_t whole_events = open(chapters)->store().event_count();
  fs::remove(last.path + ".copy");
  fs::copy_file(last.path, folder.file("last"));
  std::uint64_t before = 0;
  for (std::uint64_t size = 0; size <= last.size_bytes;
       size += size < 64 ? 1 : 1 + last.size_bytes / 100) {
    fs::copy_file(folder.file("last"), last.path, fs::copy_options::overwrite_existing);
    fs::resize_file(last.path, size);
    const auto recording = open(chapters);
    ASSERT_NE(recording, nullptr) << size;
    EXPECT_GE(recording->store().event_count(), before);
    EXPECT_EQ(recording->replays()[0].exact_from_event, 0) << size;
    before = recording->store().event_count();
  }
  EXPECT_LE(before, whole_events);
}

TEST(ChapterFolder, without_chapters_is_refused_in_one_sentence) {
  const ScratchFolder folder;
  const Result<std::shared_ptr<const Recording>> recording = Recording::open(folder.file("."));
  ASSERT_FALSE(recording);
  EXPECT_THAT(recording.error().sentence(), ::testing::HasSubstr("folder without a recording"));
}

TEST(ChapterSummary, survives_being_cut_off_anywhere) {
  ChapterFigures chapter;
  chapter.number = 7;
  chapter.events = 12;
  chapter.first_step = chapter.last_step = 3;
  chapter.devices = {{0, 100, 200, 10, 50}};
  const std::string text =
      std::string(kSummaryTitle) + summary_lines(chapter, {{3, 3, 0, 100, 10, 200, 50, 12}});
  for (std::size_t size = 0; size < text.size(); ++size)
    EXPECT_TRUE(read_summary(text.substr(0, size)).chapters.empty());
  const FolderSummary whole = read_summary(text + "chapter 8 1 2");
  ASSERT_EQ(whole.chapters.size(), 1);
  EXPECT_EQ(whole.chapters[0].devices[0].peak_reserved_bytes, 200);
  ASSERT_EQ(whole.steps.size(), 1);
  EXPECT_EQ(whole.steps[0].peak_bytes, 100);
}

TEST(ChapterSummary, of_another_version_is_not_read) {
  ChapterFigures chapter;
  chapter.number = 7;
  const std::string lines = summary_lines(chapter, {});
  EXPECT_EQ(read_summary(std::string(kSummaryTitle) + lines).chapters.size(), 1U);
  EXPECT_TRUE(read_summary("gpumemprof summary 2\n" + lines).chapters.empty());
}

}  // namespace
}  // namespace gpumemprof
