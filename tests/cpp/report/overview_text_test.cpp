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

  StringId name(std::string_view text) { return store_.add_string(text); }
  void add_root(std::string_view class_name) {
    ModuleLabel root;
    root.path = name("");
    root.class_name = name(class_name);
    root.is_root = true;
    store_.add_module(root);
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

TEST(OverviewText, sends_nobody_to_advise_who_has_nothing_to_change) {
  TrainingOnTheCpu run;
  EXPECT_THAT(run.text(), Not(HasSubstr("gpumemprof advise")));
  run.device.sources.phases.resize(1);
  run.device.sources.phases[0].phase = Phase::forward;
  EXPECT_THAT(run.text(), HasSubstr("\n  gpumemprof advise run.gmp\n"));
}

TEST(OverviewText, keeps_names_of_tensors_apart_from_the_longest_source) {
  TrainingOnTheCpu run;
  run.device.tags.largest = {{run.name("input.0"), MemorySource::unknown, false, 64 << 10},
                             {run.name("weight"), MemorySource::parameters, true, 32 << 10}};
  EXPECT_THAT(run.text(), HasSubstr("  unknown (inferred)  input.0\n"));
  EXPECT_THAT(run.text(), HasSubstr("  parameters          weight\n"));
}

TEST(OverviewText, calls_a_numbered_module_by_the_class_of_the_only_root) {
  TrainingOnTheCpu run;
  run.device.sources.peak_bytes = 1 << 20;
  run.figure(MemorySource::activations).bytes_at_peak = 1 << 20;
  ModuleNode module;
  module.name = "0";
  module.by_source[MemorySource::activations] = 1 << 20;
  run.device.sources.modules.push_back(module);
  run.add_root("Sequential");
  EXPECT_THAT(run.text(), HasSubstr("of them in Sequential.0."));
  run.add_root("Linear");
  EXPECT_THAT(run.text(), HasSubstr("of them in module 0."));
}

TEST(LeakVerdictSentence, of_reference_cycles_says_that_they_are_no_leak) {
  DeviceLeaks device;
  device.verdict = LeakVerdict::cycles;
  device.leaks.resize(2);
  EXPECT_THAT(text::leak_verdict_sentence(device, Store()), testing::StartsWith("no leak: "));
}

}  // namespace
}  // namespace gpumemprof
