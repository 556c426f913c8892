// Counters read during the run: each reading is found in the replayed history, in order.
#include <gtest/gtest.h>

#include <algorithm>

#include "replay/fixture.h"
#include "replay/timeline.h"

namespace gpumemprof::test {
namespace {

using nlohmann::json;

std::vector<std::string> names_with(const std::string& key) {
  std::vector<std::string> names = fixture_names();
  std::erase_if(names, [&](const std::string& name) {
    const json truth = load_fixture(name).truth;
    return !truth.contains(key) || truth.at(key).empty();
  });
  return names;
}

class Run : public testing::TestWithParam<std::string> {
 protected:
  Run() : fixture_(load_fixture(GetParam())), device_(fixture_.device()) {
    replay_device(device_, fixture_.store->settings(), fixture_.store->origin());
    timeline_ = timeline_of(device_);
  }

  Fixture fixture_;
  DeviceRecord& device_;
  std::vector<MemoryTotals> timeline_;
};

using MarkedRun = Run;
using TrainingRun = Run;

TEST_P(MarkedRun, passes_through_every_mark) {
  std::uint32_t event = 0;
  std::size_t found = 0;
  for (const json& mark : fixture_.truth.at("marks")) {
    const MemoryTotals wanted{
        mark.at("allocated_bytes.all.current"), mark.at("active_bytes.all.current"),
        mark.at("reserved_bytes.all.current"), mark.at("requested_bytes.all.current")};
    if (event == 0 && wanted == MemoryTotals{}) continue;  // read before the first event
    const auto fits = [&] {
      return timeline_[event] == wanted &&
             segments_at(device_, event) == mark.at("segment.all.current") &&
             inactive_split_bytes_at(device_, event) == mark.at("inactive_split_bytes.all.current");
    };
    while (event < timeline_.size() && !fits()) ++event;
    ASSERT_LT(event, timeline_.size()) << "no moment has the counters " << mark;
    ++found;
  }
  EXPECT_GE(found, 29U);
}

TEST_P(TrainingRun, passes_through_every_phase) {
  std::uint32_t event = 0;
  for (const json& step : fixture_.truth.at("steps")) {
    for (const char* phase :
         {"after_input", "after_forward", "after_backward", "after_step", "after_zero_grad"}) {
      if (!step.contains(phase)) continue;
      const std::uint64_t allocated = step.at(phase).at("allocated");
      const std::uint64_t reserved = step.at(phase).at("reserved");
      const auto fits = [&] {
        return timeline_[event].allocated_bytes == allocated &&
               timeline_[event].reserved_bytes == reserved;
      };
      while (event < timeline_.size() && !fits()) ++event;
      ASSERT_LT(event, timeline_.size())
          << "no moment has the counters " << phase << " " << step.at(phase);
    }
  }
  EXPECT_GT(event, 0U);
}

INSTANTIATE_TEST_SUITE_P(Snapshots, MarkedRun, testing::ValuesIn(names_with("marks")),
                         [](const auto& run) { return run.param; });
INSTANTIATE_TEST_SUITE_P(Snapshots, TrainingRun, testing::ValuesIn(names_with("steps")),
                         [](const auto& run) { return run.param; });

}  // namespace
}  // namespace gpumemprof::test
