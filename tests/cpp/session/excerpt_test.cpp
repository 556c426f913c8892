// A part of a run that is opened as an excerpt shows, at every moment, what the whole run shows.
#include "session/excerpt/excerpt.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <random>

#include "session/excerpt_sides.h"
#include "windows/flushed_run.h"

namespace gpumemprof {
namespace {

std::vector<std::string> recordings() {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(GPUMEMPROF_TEST_DATA)) {
    const std::string path = entry.path().string();
    if (path.ends_with(".gmp") || path.ends_with(".pickle.gz")) found.push_back(path);
  }
  std::ranges::sort(found);
  return found;
}

class Excerpts : public testing::TestWithParam<std::string> {};

TEST_P(Excerpts, ShowWhatTheWholeRunShows) {
  const Result<std::shared_ptr<const Recording>> recording = Recording::open(GetParam());
  if (!recording) GTEST_SKIP() << recording.error().sentence();
  constexpr std::uint32_t kFlush = 64;
  FlushedRun source(*recording.value(), kFlush);
  const Result<std::shared_ptr<const Recording>> whole = Recording::from(source, "run.gmp");
  ASSERT_TRUE(whole);
  WindowedRun windowed(
      "run.gmp", [&](EventSink& sink) { return source.deliver(sink); }, WindowSizes{5000});
  const Result<bool> surveyed = windowed.survey();
  ASSERT_TRUE(surveyed && surveyed.value());
  std::mt19937 generator(7);
  const auto random = [&](std::uint32_t below) {
    return std::uniform_int_distribution<std::uint32_t>(0, below - 1)(generator);
  };
  for (std::size_t index = 0; index < whole.value()->store().devices().size(); ++index) {
    const DeviceRecord& record = *whole.value()->store().devices()[index];
    const auto events = static_cast<std::uint32_t>(record.events.size());
    if (events < 2) continue;
    const Side all{*whole.value(), record};
    for (int cut = 0; cut < 4; ++cut) {
      AskedPart asked{AskedPart::Kind::events, 0, events, record.device};
      if (cut > 0) asked.first = random(events - 1);
      if (cut > 1) asked.last = asked.first + 1 + random(events - asked.first);
      const auto ranges = find_part(SurveyedOutline(windowed), "run.gmp", asked);
      ASSERT_TRUE(ranges) << ranges.error().sentence();
      Result<std::vector<RunPart>> parts = windowed.take_parts(ranges.value());
      ASSERT_TRUE(parts);
      const Result<std::shared_ptr<const Recording>> part =
          recording_of(windowed.store(), std::move(parts).value(), "run.gmp");
      ASSERT_TRUE(part);
      ASSERT_EQ(part.value()->store().devices().size(), 1U);
      const DeviceRecord& own = *part.value()->store().devices().front();
      const ExcerptRange range = *part.value()->store().facts().device(record.device).excerpt;
      ASSERT_EQ(range.lead_in + (asked.last - asked.first), own.events.size());
      const Side side{*part.value(), own};
      expect_equal(all, side, range, asked.first);
      expect_equal(all, side, range, asked.last - 1);
      for (int moment = 0; moment < 5; ++moment)
        expect_equal(all, side, range, asked.first + random(asked.last - asked.first));
      for (std::uint32_t event = asked.first; event < asked.last; event += 97)
        EXPECT_EQ(step_at(whole.value()->phases()[index], event),
                  step_at(part.value()->phases().front(), range.row_of(event)));
      // Whoever reads it is told.
      const Result<Overview> overview = part.value()->overview();
      ASSERT_TRUE(overview);
      ASSERT_EQ(overview.value().completeness.excerpts.size(), 1U);
      EXPECT_EQ(overview.value().completeness.excerpts.front().range, range);
      EXPECT_EQ(overview.value().completeness.recorded.allocations,
                static_cast<std::uint64_t>(std::ranges::count(
                    std::span(record.events.action).subspan(asked.first, asked.last - asked.first),
                    Action::alloc)));
    }
  }
}

std::string name_of(const testing::TestParamInfo<std::string>& parameter) {
  const std::filesystem::path path(parameter.param);
  std::string name = path.parent_path().filename().string() + "_" + path.stem().string();
  for (char& letter : name) {
    if (std::isalnum(static_cast<unsigned char>(letter)) == 0) letter = '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(Data, Excerpts, testing::ValuesIn(recordings()), name_of);

TEST(ExcerptText, IsReadAsItWasWritten) {
  ExcerptRange range{5, 90, 100, 2, 4, 17, true, 123456789, false};
  EXPECT_EQ(parse_excerpt(excerpt_text(range)), range);
  range.is_expandable.reset();
  range.run_start_ns = kUnknownTime;
  EXPECT_EQ(parse_excerpt(excerpt_text(range)), range);
}

TEST(ExcerptText, OfAForgedFileIsRefused) {
  for (const char* const text :
       {"", "1 2", "9 5 100 0 0 0 0 0 0", "0 200 100 0 0 0 0 0 0", "0 1 2 0 0 0 0 9 0",
        "0 1 2 0 0 0 0 0 x", "0 1 2 0 0 0 0 0 0 0", "-1 1 2 0 0 0 0 0 0"})
    EXPECT_FALSE(parse_excerpt(text)) << text;
}

}  // namespace
}  // namespace gpumemprof
