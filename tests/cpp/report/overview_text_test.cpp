// What the first lines of a report say.
#include "report/text/overview/overview_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/leaks/leaks_sentence.h"

namespace gpumemprof {
namespace {

using testing::HasSubstr;
using testing::Not;

// A recorded training run on the CPU that held gradients.
class TrainingOnTheCpu {
 public:
  TrainingOnTheCpu() {
    Origin origin;
    origin.device_type = "cpu";
    store_.set_origin(origin);
    device.name = "cpu:0";
    device.replay.has_history = true;
    device.events = 2;
    device.sources.kind = RunKind::training;
    device.sources.has_stacks = true;
    figure(MemorySource::gradients).bytes_max = 1 << 20;
  }
  SourceFigure& figure(MemorySource source) {
    return device.sources.figures[static_cast<std::size_t>(source)];
  }
  [[nodiscard]] std::string text() const {
    Overview overview;
    overview.path = "run.gmp";
    overview.devices.push_back(device);
    TextStyle style;
    style.width = 1000;
    return overview_text(overview, store_, style);
  }

  DeviceOverview device;

 private:
  Store store_;
};

TEST(OverviewText, a_model_that_is_older_than_the_recording_is_said_to_be_missing) {
  TrainingOnTheCpu run;
  EXPECT_THAT(run.text(), HasSubstr("the model seems to be older than the recording"));
  run.device.sources.has_labels = true;
  EXPECT_THAT(run.text(), HasSubstr("The model is older than the recording"));
  run.figure(MemorySource::parameters).bytes_max = 1 << 20;
  EXPECT_THAT(run.text(), Not(HasSubstr("older than the recording")));
}

TEST(OverviewText, what_sizes_alone_suggest_says_nothing_about_the_model) {
  TrainingOnTheCpu run;
  run.device.sources.has_stacks = false;
  EXPECT_THAT(run.text(), Not(HasSubstr("older than the recording")));
}

TEST(LeakVerdictSentence, of_reference_cycles_says_that_they_are_no_leak) {
  DeviceLeaks device;
  device.verdict = LeakVerdict::cycles;
  device.leaks.resize(2);
  EXPECT_THAT(text::leak_verdict_sentence(device, Store()), testing::StartsWith("no leak: "));
}

}  // namespace
}  // namespace gpumemprof
