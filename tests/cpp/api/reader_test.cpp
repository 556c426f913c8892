// The installed interface, through its public headers alone.
#include "gpumemprof/reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

namespace {

using gpumemprof::Device;
using gpumemprof::Recording;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::string snapshot(const std::string& name) {
  return std::string(GPUMEMPROF_TEST_DATA) + "/snapshots/" + name + ".pickle.gz";
}

std::vector<std::string> all_snapshots() {
  std::vector<std::string> names;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(GPUMEMPROF_TEST_DATA) + "/snapshots")) {
    const std::string name = entry.path().filename().string();
    const std::size_t suffix = name.find(".pickle.gz");
    if (suffix != std::string::npos) names.push_back(name.substr(0, suffix));
  }
  std::sort(names.begin(), names.end());
  return names;
}

class EverySnapshot : public testing::TestWithParam<std::string> {
 protected:
  EverySnapshot() : recording_(Recording::open(snapshot(GetParam()))) {}
  void SetUp() override { ASSERT_TRUE(recording_) << recording_.error().sentence; }

  gpumemprof::Result<Recording> recording_;
};

TEST_P(EverySnapshot, CountsItsRowsAsTheyAreRead) {
  ASSERT_THAT(recording_->devices(), Not(IsEmpty()));
  for (const Device& device : recording_->devices()) {
    const auto events = device.events();
    EXPECT_EQ(std::distance(events.begin(), events.end()), device.event_count());
    const auto allocations = device.allocations();
    EXPECT_EQ(std::distance(allocations.begin(), allocations.end()), device.allocation_count());
    const auto moments = device.moments();
    EXPECT_EQ(std::distance(moments.begin(), moments.end()), device.event_count());
    const auto steps = device.steps();
    EXPECT_EQ(std::distance(steps.begin(), steps.end()), device.step_count());
  }
}

TEST_P(EverySnapshot, MomentsReachThePeakAndEndAsReplayDoes) {
  for (const Device& device : recording_->devices()) {
    std::uint64_t most = device.start().allocated_bytes;
    std::uint64_t most_reserved = device.start().reserved_bytes.value_or(0);
    gpumemprof::Totals last = device.start();
    for (const gpumemprof::Moment& moment : device.moments()) {
      most = std::max(most, moment.totals.allocated_bytes);
      most_reserved = std::max(most_reserved, moment.totals.reserved_bytes.value_or(0));
      last = moment.totals;
      if (device.peak_event() == moment.event) {
        EXPECT_EQ(moment.totals.allocated_bytes, device.peak().allocated_bytes);
        EXPECT_EQ(moment.totals.active_bytes, device.peak().active_bytes);
        EXPECT_EQ(moment.totals.reserved_bytes, device.peak().reserved_bytes);
        EXPECT_EQ(moment.totals.requested_bytes, device.peak().requested_bytes);
      }
    }
    EXPECT_EQ(most, device.peak().allocated_bytes);
    EXPECT_EQ(most_reserved, device.peak_reserved_bytes());
    EXPECT_EQ(last.allocated_bytes, device.end().allocated_bytes);
    EXPECT_EQ(last.reserved_bytes, device.end().reserved_bytes);
  }
}

TEST_P(EverySnapshot, SourcesAddUpToWhatIsAllocated) {
  for (const Device& device : recording_->devices()) {
    if (!device.peak_event()) continue;
    const auto at_peak = device.sources_at(*device.peak_event());
    ASSERT_TRUE(at_peak) << at_peak.error().sentence;
    std::uint64_t sum = at_peak->rounding_bytes;
    std::map<std::string_view, std::uint64_t> parts;
    for (const auto& part : at_peak->parts) {
      sum += part.bytes;
      parts[part.source] = part.bytes;
    }
    EXPECT_EQ(sum, device.peak().allocated_bytes);
    for (const gpumemprof::Source& source : device.sources()) {
      EXPECT_EQ(source.bytes_at_peak, parts[source.name]) << source.name;
      EXPECT_GE(source.bytes_max, source.bytes_at_peak);
    }
  }
}

TEST_P(EverySnapshot, AdvisesTheKindOfRunThatItReports) {
  const auto advice = recording_->advise();
  if (!advice) return;
  for (const Device& device : recording_->devices()) {
    if (device.index() == advice->device()) {
      EXPECT_EQ(device.run_kind(), advice->run_kind());
    }
  }
}

TEST_P(EverySnapshot, AdvisesInTheWordsOfTheInterface) {
  const auto advice = recording_->advise();
  if (!advice) return;
  EXPECT_THAT(advice->partial(), Not(HasSubstr("--")));
  for (const gpumemprof::Remedy& remedy : advice->remedies())
    EXPECT_THAT(remedy.why, Not(HasSubstr("--")));
}

TEST_P(EverySnapshot, KnowsASavingWhereItPredicts) {
  const auto advice = recording_->advise();
  if (!advice) return;
  for (const gpumemprof::Remedy& remedy : advice->remedies())
    EXPECT_EQ(remedy.saving_bytes.has_value(), remedy.peak_allocated.has_value()) << remedy.name;
}

TEST_P(EverySnapshot, EventsOfABlockHoldWhatWasRequested) {
  for (const Device& device : recording_->devices()) {
    std::map<std::uint32_t, std::uint64_t> requested;
    for (const gpumemprof::Allocation& allocation : device.allocations()) {
      for (const auto& event : {allocation.alloc_event, allocation.free_event})
        if (event) requested[*event] = allocation.requested_bytes;
    }
    std::uint32_t number = 0;
    for (const gpumemprof::Event& event : device.events()) {
      if (const auto found = requested.find(number++); found != requested.end()) {
        EXPECT_EQ(event.size_bytes, found->second) << event.action;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Snapshots, EverySnapshot, testing::ValuesIn(all_snapshots()));

TEST(Reader, ShowsStacksInnermostFirst) {
  const auto recording = Recording::open(snapshot("clean_training"));
  ASSERT_TRUE(recording);
  bool has_script = false;
  for (const gpumemprof::Allocation& allocation : recording->devices().front().allocations()) {
    const auto frames = recording->stack(allocation.stack);
    if (frames.empty()) continue;
    EXPECT_THAT(frames.front().file, Not(IsEmpty()));
    has_script = has_script || frames.back().file.find(".py") != std::string_view::npos;
  }
  EXPECT_TRUE(has_script);
  EXPECT_THAT(recording->stack(std::nullopt), IsEmpty());
  EXPECT_THAT(recording->stack(4'000'000'000U), IsEmpty());
}

TEST(Reader, NamesTheLineOfTheProgramAsReportsDo) {
  const auto recording = Recording::open(snapshot("gpt2_b4_fp32_adamw"));
  ASSERT_TRUE(recording);
  bool has_inner = false;  // a frame of torch below the line
  for (const gpumemprof::Allocation& allocation : recording->devices().front().allocations()) {
    const auto line = recording->line(allocation.stack);
    ASSERT_EQ(line.has_value(), allocation.stack.has_value());
    if (!line) continue;
    EXPECT_EQ(line->file, "/train/case.py");
    has_inner = has_inner || recording->stack(allocation.stack).front().file != line->file;
  }
  EXPECT_TRUE(has_inner);
  EXPECT_FALSE(recording->line(std::nullopt));
  EXPECT_FALSE(recording->line(4'000'000'000U));
}

TEST(Reader, SimulatesOtherSettings) {
  const auto recording = Recording::open(snapshot("frag_pinned_segments"));
  ASSERT_TRUE(recording);
  gpumemprof::SimulateOptions options;
  options.alloc_confs = {"expandable_segments:True"};
  const auto simulation = recording->simulate(options);
  ASSERT_TRUE(simulation) << simulation.error().sentence;
  std::vector<gpumemprof::SimulatedRun> runs;
  for (const auto& run : simulation->runs()) runs.push_back(run);
  ASSERT_EQ(runs.size(), 2U);
  EXPECT_TRUE(runs[0].is_recorded);
  EXPECT_TRUE(runs[0].is_verified);
  EXPECT_EQ(runs[0].peak_reserved_bytes,
            recording->devices().front().peak_reserved_bytes().value());
  EXPECT_EQ(runs[1].alloc_conf, "expandable_segments:True");
  EXPECT_LT(runs[1].peak_reserved_bytes, runs[0].peak_reserved_bytes);
  EXPECT_FALSE(runs[1].memory_limit_bytes);
  EXPECT_THAT(simulation->json().value(), HasSubstr("\"expandable_segments:True\""));
}

TEST(Reader, RefusesSettingsThatAreNone) {
  const auto recording = Recording::open(snapshot("clean_training"));
  ASSERT_TRUE(recording);
  gpumemprof::SimulateOptions options;
  options.alloc_confs = {"no_such_setting:1"};
  const auto simulation = recording->simulate(options);
  ASSERT_FALSE(simulation);
  EXPECT_EQ(simulation.error().kind, GPUMEMPROF_USAGE);
  EXPECT_THAT(simulation.error().sentence, HasSubstr("no_such_setting"));
}

TEST(Reader, AdvisesWithABandForEveryPrediction) {
  const auto recording = Recording::open(snapshot("gpt2_b4_fp32_adamw"));
  ASSERT_TRUE(recording);
  gpumemprof::AdviseOptions options;
  options.fit_bytes = recording->devices().front().peak().allocated_bytes / 10 * 9;
  const auto advice = recording->advise(options);
  ASSERT_TRUE(advice) << advice.error().sentence;
  int predicted = 0;
  for (const gpumemprof::Remedy& remedy : advice->remedies()) {
    EXPECT_THAT(remedy.name, Not(IsEmpty()));
    if (!remedy.peak_allocated) continue;
    ++predicted;
    EXPECT_LE(remedy.peak_allocated->low_bytes, remedy.peak_allocated->bytes);
    EXPECT_LE(remedy.peak_allocated->bytes, remedy.peak_allocated->high_bytes);
  }
  EXPECT_GT(predicted, 3);
  EXPECT_FALSE(advice->fits_already());
  EXPECT_TRUE(advice->is_fit_found());
  EXPECT_THAT(advice->fit_names(), Not(IsEmpty()));
  EXPECT_LE(advice->fit_peak_reserved()->bytes, *options.fit_bytes);
}

TEST(Reader, GivesTheDocumentsOfTheCommandLine) {
  const auto recording = Recording::open(snapshot("gpt2_b32_fp32_adamw_oom"));
  ASSERT_TRUE(recording);
  EXPECT_THAT(recording->report_json().value(), HasSubstr("\"peak\""));
  EXPECT_THAT(recording->info_json().value(), HasSubstr("\"devices\""));
  EXPECT_THAT(recording->leaks_json().value(), HasSubstr("\"verdict\""));
  EXPECT_GT(recording->devices().front().out_of_memory(), 0U);
}

TEST(Reader, SaysWhyADocumentCannotBeMade) {
  const auto advice = gpumemprof::Advice(nullptr).json();
  ASSERT_FALSE(advice);
  EXPECT_EQ(advice.error().kind, GPUMEMPROF_USAGE);
  EXPECT_EQ(advice.error().message, "no advice was given");
  const auto simulation = gpumemprof::Simulation(nullptr).json();
  ASSERT_FALSE(simulation);
  EXPECT_EQ(simulation.error().message, "no simulation was given");
}

std::string trace(const std::string& name) {
  return std::string(GPUMEMPROF_TEST_DATA) + "/traces/" + name + ".gmp";
}

TEST(Reader, OpensAFewStepsOfARun) {
  const auto whole = Recording::open(trace("cpu_training"));
  const auto part = Recording::open_steps(trace("cpu_training"), 2, 3);
  ASSERT_TRUE(whole);
  ASSERT_TRUE(part) << part.error().sentence;
  std::map<std::uint32_t, std::uint64_t> peaks;
  for (const auto& step : whole->devices().front().steps()) peaks[step.step] = step.peak_bytes;
  const Device device = part->devices().front();
  EXPECT_LT(device.event_count(), whole->devices().front().event_count());
  std::vector<std::uint32_t> steps;
  for (const auto& step : device.steps()) {
    if (step.step != 2 && step.step != 3) continue;
    steps.push_back(step.step);
    EXPECT_EQ(step.peak_bytes, peaks[step.step]);
  }
  EXPECT_THAT(steps, testing::ElementsAre(2, 3));

  const auto outside = Recording::open_steps(trace("cpu_training"), 1000, 2000);
  ASSERT_FALSE(outside);
  EXPECT_EQ(outside.error().kind, GPUMEMPROF_USAGE);
}

TEST(Reader, KnowsWhatCpuTensorsDoNotHave) {
  const auto recording = Recording::open(trace("cpu_training"));
  ASSERT_TRUE(recording);
  EXPECT_EQ(recording->kind(), "live");
  EXPECT_TRUE(recording->is_whole());
  EXPECT_THAT(recording->cut(), IsEmpty());
  const Device device = recording->devices().front();
  EXPECT_FALSE(device.has_pool());
  EXPECT_FALSE(device.peak().reserved_bytes);
  EXPECT_FALSE(device.peak_reserved_bytes());
  EXPECT_FALSE(device.card_total_bytes());
  EXPECT_FALSE(recording->simulate());
}

TEST(Reader, SaysThatAFileEndsTooEarly) {
  const auto recording = Recording::open(trace("cpu_training_cut"));
  ASSERT_TRUE(recording) << recording.error().sentence;
  EXPECT_FALSE(recording->is_whole());
  EXPECT_THAT(recording->cut(), HasSubstr("cpu_training_cut.gmp"));
  EXPECT_GT(recording->devices().front().event_count(), 0U);
}

TEST(Reader, SaysInOneSentenceWhyAFileCannotBeRead) {
  const auto missing = Recording::open("no/such/file.gmp");
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().sentence, HasSubstr("no/such/file.gmp"));

  const std::string path = testing::TempDir() + "text_" + std::to_string(::getpid()) + ".gmp";
  std::ofstream(path) << "not a recording";
  const auto text = Recording::open(path);
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().kind, GPUMEMPROF_BAD_INPUT);
  EXPECT_THAT(text.error().hint, Not(IsEmpty()));
}

TEST(Reader, MayBeReadFromManyThreads) {
  const auto recording = Recording::open(snapshot("clean_training"));
  ASSERT_TRUE(recording);
  std::vector<std::thread> threads;
  std::vector<std::uint64_t> peaks(4);
  for (std::uint64_t& peak : peaks) {
    threads.emplace_back([&] {
      for (const auto& moment : recording->devices().front().moments())
        peak = std::max(peak, moment.totals.allocated_bytes);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(peaks, testing::Each(recording->devices().front().peak().allocated_bytes));
}

}  // namespace
