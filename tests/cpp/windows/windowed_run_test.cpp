// The report of a run that is read in windows equals that of the run read whole.
#include "windows/windowed_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "report/json/overview_json.h"
#include "report/leaks/leaks_json.h"
#include "windows/flushed_run.h"

namespace gpumemprof {
namespace {

// Of the tests, or of a folder that someone wants to compare.
std::vector<std::string> recordings() {
  const char* const folder = std::getenv("GPUMEMPROF_WINDOW_DATA");
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(
           folder == nullptr ? GPUMEMPROF_TEST_DATA : folder)) {
    const std::string path = entry.path().string();
    if (path.ends_with(".gmp") || path.ends_with(".pickle.gz")) found.push_back(path);
  }
  std::ranges::sort(found);
  return found;
}

// The figures that differ, one line for each.
std::string differences(const nlohmann::json& whole, const nlohmann::json& windowed) {
  std::string text;
  for (const nlohmann::json& change : nlohmann::json::diff(whole, windowed)) {
    const nlohmann::json::json_pointer at(change["path"].get<std::string>());
    text += "\n  " + change["path"].get<std::string>() + ": ";
    text += whole.contains(at) ? whole[at].dump().substr(0, 200) : "nothing";
    text += " -> ";
    text += change.contains("value") ? change["value"].dump().substr(0, 200) : "nothing";
  }
  return text;
}

// What is concluded from a simulation of the whole run, or from all of its segments, is not tried
// where that cannot be read part by part.
void forget_verdicts(nlohmann::json& report) {
  for (nlohmann::json& device : report["devices"]) {
    for (nlohmann::json& oom : device["oom_reports"]) {
      for (const char* const key : {"cause", "is_proven", "doubts", "remedy_doubts", "contributing",
                                    "short_bytes", "limit_bytes", "surviving_settings"})
        oom.erase(key);
    }
  }
}

class WindowedRecordings : public testing::TestWithParam<std::string> {};

TEST_P(WindowedRecordings, HaveTheReportOfTheWholeRun) {
  const Result<std::shared_ptr<const Recording>> recording = Recording::open(GetParam());
  if (!recording) GTEST_SKIP() << recording.error().sentence();
  constexpr std::uint32_t kFlush = 64;
  FlushedRun source(*recording.value(), kFlush);
  const Result<std::shared_ptr<const Recording>> whole = Recording::from(source, "run.gmp");
  ASSERT_TRUE(whole);
  // Longer than a step: what a window leaves shows in the steps after it.
  for (const std::uint32_t events : {1000U, 5000U}) {
    WindowedRun windowed(
        "run.gmp", [&](EventSink& sink) { return source.deliver(sink); }, WindowSizes{events});
    windowed.let_prove_failures([&](EventSink& sink) { return source.deliver(sink); });
    const Result<bool> is_surveyed = windowed.survey();
    ASSERT_TRUE(is_surveyed);
    ASSERT_TRUE(is_surveyed.value());
    for (const AskedMoment at : {AskedMoment{}, AskedMoment{AskedMoment::Kind::end, 0}}) {
      const Result<Overview> expected = whole.value()->overview({at, {}});
      const Result<Overview> found = windowed.overview({at, {}});
      ASSERT_TRUE(expected);
      ASSERT_TRUE(found) << found.error().sentence();
      const auto json = [&](const Overview& overview, const Store& store) {
        nlohmann::json report = nlohmann::json::parse(overview_json(overview, store, kAllGroups));
        if (windowed.needs_whole_for_proof()) forget_verdicts(report);
        return report;
      };
      const nlohmann::json of_whole = json(expected.value(), whole.value()->store());
      const nlohmann::json of_windows = json(found.value(), windowed.store());
      EXPECT_TRUE(of_whole == of_windows)
          << "windows of " << events << " events" << differences(of_whole, of_windows);
      const auto leaks = [&](const Overview& overview, const Store& store) {
        LeaksReport report;
        report.path = overview.path;
        report.completeness = overview.completeness;
        for (const DeviceOverview& device : overview.devices)
          report.devices.push_back(device.leaks.value());
        return nlohmann::json::parse(leaks_json(report, store));
      };
      const nlohmann::json leaks_of_whole = leaks(expected.value(), whole.value()->store());
      const nlohmann::json leaks_of_windows = leaks(found.value(), windowed.store());
      EXPECT_TRUE(leaks_of_whole == leaks_of_windows)
          << "windows of " << events << " events" << differences(leaks_of_whole, leaks_of_windows);
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

INSTANTIATE_TEST_SUITE_P(Data, WindowedRecordings, testing::ValuesIn(recordings()), name_of);

}  // namespace
}  // namespace gpumemprof
