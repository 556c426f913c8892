// Every allocation of a run that is read in windows has the label it has in the run read whole,
// however late that was said.
#include "windows/labels/label_survey.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>
#include <tuple>

#include "windows/flushed_run.h"
#include "windows/windowed_run.h"

namespace gpumemprof {
namespace {

// Source, whether a label says so, and name.
using Labelled = std::tuple<MemorySource, bool, std::string>;
// By birth; what is live at the start, by its place there.
using LabelledRows = std::map<std::uint64_t, Labelled>;

Labelled labelled(const Store& store, const DeviceRecord& record, std::size_t row) {
  const AllocationLabels& labels = record.labels;
  const StringId name = labels.name.empty() ? StringId() : labels.name[row];
  return {labels.source[row], labels.is_measured(row),
          name.is_none() ? std::string() : std::string(store.text(name))};
}

class RowCollector final : public WindowTaker {
 public:
  RowCollector(const Store& store, LabelledRows& rows) : store_(store), rows_(rows) {}

  void take(const KeptRun& /*run*/, const LocalView& view, const Window& window,
            const std::vector<PhaseSpan>& /*spans*/) override {
    for (std::size_t row = 0; row < view.record().allocations.size(); ++row) {
      const std::uint32_t birth = view.birth(row);
      const bool is_of_start = birth == kNoEvent && window.first == 0;
      if (is_of_start || (birth != kNoEvent && birth >= window.first && birth < window.end))
        rows_[is_of_start ? KeptRun::start_key(row) : birth] = labelled(store_, view.record(), row);
    }
  }

 private:
  const Store& store_;
  LabelledRows& rows_;
};

LabelledRows rows_of(const Store& store, const DeviceRecord& record) {
  LabelledRows rows;
  for (std::size_t row = 0; row < record.allocations.size(); ++row) {
    const std::uint32_t birth = record.allocations.alloc_event[row];
    rows[birth == kNoEvent ? KeptRun::start_key(row) : birth] = labelled(store, record, row);
  }
  return rows;
}

std::map<DeviceIndex, LabelledRows> rows_in_windows(FlushedRun& source, std::uint32_t events) {
  WindowedRun windowed(
      "run.gmp", [&](EventSink& sink) { return source.deliver(sink); }, WindowSizes{events});
  EXPECT_TRUE(windowed.survey().value());
  std::map<DeviceIndex, LabelledRows> found;
  std::map<DeviceIndex, std::unique_ptr<RowCollector>> collectors;
  std::map<DeviceIndex, WindowTaker*> takers;
  for (const DeviceIndex device : windowed.devices()) {
    collectors[device] = std::make_unique<RowCollector>(windowed.store(), found[device]);
    takers[device] = collectors[device].get();
  }
  EXPECT_TRUE(windowed.show_windows(takers));
  return found;
}

// Of those that carry a label, how many rows differ; the first few in words.
std::string differences_of(const LabelledRows& whole, const LabelledRows& windowed) {
  std::string text;
  std::size_t count = 0;
  for (const auto& [key, expected] : whole) {
    const auto found = windowed.find(key);
    if (found != windowed.end() && found->second == expected) continue;
    const auto show = [](const Labelled& one) {
      return std::string(memory_source_name(std::get<0>(one))) +
             (std::get<1>(one) ? " measured " : " inferred ") + std::get<2>(one);
    };
    if (++count <= 5)
      text += "\n  " + std::to_string(key) + ": " + show(expected) + " -> " +
              (found == windowed.end() ? "nothing" : show(found->second));
  }
  return count == 0 ? "" : std::to_string(count) + " rows differ" + text;
}

struct Case {
  std::string recording;
  std::uint32_t window = 0;
  std::uint32_t delay = 0;  // of labels, in events
};

class LabelsInWindows : public testing::TestWithParam<Case> {};

TEST_P(LabelsInWindows, are_those_of_the_whole_run) {
  const std::string path = std::string(GPUMEMPROF_TEST_DATA) + "/traces/" + GetParam().recording;
  const Result<std::shared_ptr<const Recording>> recording = Recording::open(path);
  ASSERT_TRUE(recording) << recording.error().sentence();
  constexpr std::uint32_t kFlush = 16;
  FlushedRun source(*recording.value(), kFlush, GetParam().delay);
  const Result<std::shared_ptr<const Recording>> whole = Recording::from(source, "run.gmp");
  ASSERT_TRUE(whole);
  const auto windowed = rows_in_windows(source, GetParam().window);
  std::size_t names = 0;
  for (const auto& record : whole.value()->store().devices()) {
    const LabelledRows expected = rows_of(whole.value()->store(), *record);
    for (const auto& [key, one] : expected) names += std::get<2>(one).empty() ? 0U : 1U;
    EXPECT_EQ(differences_of(expected, windowed.at(record->device)), "");
  }
  EXPECT_GT(names, 0U);
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char* const recording : {"cpu_training.gmp"}) {
    for (const std::uint32_t window : {97U, 300U, 1000U}) {
      for (const std::uint32_t delay : {0U, 50U, 700U, 3000U})
        all.push_back({recording, window, delay});
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Delays, LabelsInWindows, testing::ValuesIn(cases()),
                         [](const testing::TestParamInfo<Case>& one) {
                           return "window_" + std::to_string(one.param.window) + "_delay_" +
                                  std::to_string(one.param.delay) + "_" + std::to_string(one.index);
                         });

TEST(SurveyedLabelSets, comeBackFromTheFile) {
  SurveyedLabelSets sets;
  constexpr std::uint32_t kSets = 40;
  constexpr std::size_t kLabels = 10'000;
  for (std::uint32_t set = 0; set < kSets; ++set) {
    std::vector<Label> labels(kLabels + set, Label{LabelKind::gradient, set, StringId{set}});
    sets.add(labels);
  }
  for (const std::uint32_t set : {0U, 39U, 13U, 14U, 0U}) {
    const std::span<const Label> found = sets.get(set);
    ASSERT_EQ(found.size(), kLabels + set);
    EXPECT_EQ(found.front().address, set);
    EXPECT_EQ(found.back().name, StringId{set});
  }
  EXPECT_TRUE(sets.get(kSets).empty());
}

}  // namespace
}  // namespace gpumemprof
