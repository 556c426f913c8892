// A part that is read at the checkpoints of an index shows what the whole run shows, and is what a
// pass over the run takes.
#include "session/excerpt/indexed_part.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>

#include "index/indexed_run.h"
#include "session/changed_chapters.h"
#include "session/excerpt/excerpt.h"
#include "session/excerpt/indexed_moment.h"
#include "session/excerpt_sides.h"

namespace gpumemprof {
namespace {

constexpr const char* kTraining = "training";
constexpr std::string_view kChapters = "chapters/";

std::vector<std::string> recordings_with_index() {
  std::vector<std::string> found = {kTraining};
  for (const auto& entry : std::filesystem::recursive_directory_iterator(GPUMEMPROF_TEST_DATA)) {
    if (entry.path().extension() == ".gmp" && entry.is_regular_file())
      found.push_back(entry.path().string());
  }
  std::ranges::sort(found);
  for (const std::string_view change : kChangedChapters)
    found.push_back(std::string(kChapters) + std::string(change));
  return found;
}

class IndexedParts : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == kTraining) {
      run_ = &indexed_run();
    } else if (GetParam().starts_with(kChapters)) {
      const std::string folder = folder_.file("many.gmp");
      make_chapters(folder, GetParam().substr(kChapters.size()), 5);
      own_ = indexed(folder, 3000, 700);
      run_ = &own_;
    } else {
      const std::string copy = run_path(std::filesystem::path(GetParam()).filename().string());
      std::filesystem::copy_file(GetParam(), copy,
                                 std::filesystem::copy_options::overwrite_existing);
      own_ = indexed(copy, 5000, 2000);
      run_ = &own_;
    }
    if (run_->whole == nullptr) GTEST_SKIP() << "it has no index";
    ASSERT_NE(run_->index, nullptr);
  }
  const IndexedRun* run_ = nullptr;

 private:
  ScratchFolder folder_;
  IndexedRun own_;
};

TEST_P(IndexedParts, ShowWhatTheWholeRunShows) {
  std::mt19937 generator(11);
  const auto random = [&](std::uint32_t below) {
    return std::uniform_int_distribution<std::uint32_t>(0, below - 1)(generator);
  };
  const IndexOutline outline(*run_->index);
  for (const auto& record : run_->whole->store().devices()) {
    const auto events = static_cast<std::uint32_t>(record->events.size());
    if (events < 2) continue;
    const Side all{*run_->whole, *record};
    for (int cut = 0; cut < 4; ++cut) {
      AskedPart asked{AskedPart::Kind::events, 0, events, record->device};
      if (cut > 0) asked.first = random(events - 1);
      if (cut > 1) asked.last = asked.first + 1 + random(events - asked.first);
      const auto ranges = find_part(outline, run_->path, asked);
      ASSERT_TRUE(ranges) << ranges.error().sentence();
      const Result<std::shared_ptr<const Recording>> part =
          open_parts(*run_->index, run_->path, ranges.value());
      ASSERT_TRUE(part) << part.error().sentence();
      const DeviceRecord& own = *part.value()->store().devices().front();
      const ExcerptRange range = *part.value()->store().facts().device(record->device).excerpt;
      ASSERT_EQ(range.lead_in + (asked.last - asked.first), own.events.size());
      const Side side{*part.value(), own};
      expect_equal(all, side, range, asked.first);
      expect_equal(all, side, range, asked.last - 1);
      for (int moment = 0; moment < 5; ++moment)
        expect_equal(all, side, range, asked.first + random(asked.last - asked.first));
      if (HasFailure()) return;
    }
  }
  EXPECT_FALSE(outline.is_damaged());
}

TEST_P(IndexedParts, AreWhereAPassOverTheRunFindsThem) {
  WindowedRun windowed(
      run_->path,
      [&](EventSink& sink) -> Status {
        const Result<std::unique_ptr<PlacedSource>> source = placed_source(run_->path);
        if (!source) return source.error();
        return source.value()->deliver(sink);
      },
      WindowSizes{5000});
  const Result<bool> surveyed = windowed.survey();
  ASSERT_TRUE(surveyed && surveyed.value());
  const SurveyedOutline read(windowed);
  const IndexOutline indexed(*run_->index);
  std::vector<AskedPart> parts = {{}};
  for (const DeviceIndex device : read.devices()) {
    const std::uint32_t steps = read.device(device).last_step;
    for (const std::uint32_t step : {0U, 1U, 2U, steps / 2, steps, steps + 1})
      parts.push_back({AskedPart::Kind::steps, step, step + 1, device});
    const std::uint32_t events = read.device(device).events;
    parts.push_back({AskedPart::Kind::events, events / 3, events / 2 + 1, device});
    parts.push_back({AskedPart::Kind::events, 0, events + 1, device});
  }
  for (const AskedPart& asked : parts) {
    const auto expected = find_part(read, "run.gmp", asked);
    const auto found = find_part(indexed, "run.gmp", asked);
    ASSERT_EQ(static_cast<bool>(expected), static_cast<bool>(found));
    if (!expected) {
      EXPECT_EQ(expected.error().sentence(), found.error().sentence());
    } else {
      EXPECT_EQ(expected.value(), found.value()) << "from " << asked.first << " to " << asked.last;
    }
  }
}

TEST_P(IndexedParts, AnswerAboutAnyEvent) {
  std::mt19937 generator(13);
  for (const DeviceOverview& at_peak : run_->index->at_peak().devices) {
    const auto events = static_cast<std::uint32_t>(at_peak.events);
    if (events == 0) continue;
    std::uniform_int_distribution<std::uint32_t> random(0, events - 1);
    for (const std::uint32_t event : {0U, random(generator), random(generator), events - 1}) {
      const Result<Overview> expected =
          run_->whole->overview({{AskedMoment::Kind::event, event}, at_peak.device});
      ASSERT_TRUE(expected);
      const Result<DeviceOverview> looked = look_at_event(*run_->index, at_peak, event);
      ASSERT_TRUE(looked) << looked.error().sentence();
      Overview found = run_->index->at_peak();
      found.devices = {looked.value()};
      const auto report_of = [](const Overview& overview, const Store& store) {
        nlohmann::json report = nlohmann::json::parse(overview_json(overview, store, kAllGroups));
        nlohmann::json& device = report["devices"][0];
        // What only a simulation of the whole run proves.
        device.erase("oom_reports");
        return report;
      };
      const nlohmann::json of_whole = report_of(expected.value(), run_->whole->store());
      const nlohmann::json of_index = report_of(found, run_->index->store());
      EXPECT_TRUE(of_whole == of_index)
          << "event " << event << nlohmann::json::diff(of_whole, of_index).dump().substr(0, 2000);
    }
  }
}

std::string part_test_name(const testing::TestParamInfo<std::string>& parameter) {
  const std::filesystem::path path(parameter.param);
  std::string name = path.parent_path().filename().string() + "_" + path.stem().string();
  for (char& letter : name) {
    if (std::isalnum(static_cast<unsigned char>(letter)) == 0) letter = '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(Data, IndexedParts, testing::ValuesIn(recordings_with_index()),
                         part_test_name);

}  // namespace
}  // namespace gpumemprof
