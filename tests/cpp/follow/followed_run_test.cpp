// A followed run says at its end what the whole recording says, however its file grew.
#include "follow/followed_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "follow/live_notices.h"
#include "session/recording.h"
#include "trace/writer.h"

namespace gpumemprof {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t kEverything = ~std::uint64_t{0};

std::string data(const std::string& name) { return GPUMEMPROF_TEST_DATA "/" + name; }

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

class GrowingFile {
 public:
  explicit GrowingFile(std::string bytes) : bytes_(std::move(bytes)) {
    path_ = ::testing::TempDir() + "/growing_" + std::to_string(::getpid()) +
            ::testing::UnitTest::GetInstance()->current_test_info()->name() + ".gmp";
    std::filesystem::remove(path_);
    grow(16);
  }
  ~GrowingFile() { std::filesystem::remove(path_); }

  void grow(std::size_t count) {
    count = std::min(count, bytes_.size() - written_);
    std::ofstream(path_, std::ios::binary | std::ios::app)
        .write(bytes_.data() + written_, static_cast<std::streamsize>(count));
    written_ += count;
  }
  void shrink(std::size_t size) const { std::filesystem::resize_file(path_, size); }
  [[nodiscard]] bool is_whole() const { return written_ == bytes_.size(); }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string bytes_;
  std::string path_;
  std::size_t written_ = 0;
};

LiveReport read_whole(const std::string& path) {
  Result<std::unique_ptr<FollowedRun>> run = FollowedRun::open(path);
  EXPECT_TRUE(run.ok());
  Result<LiveReport> report = run.value()->read(kEverything, 20, 20);
  EXPECT_TRUE(report.ok());
  return report.value();
}

class Followed : public ::testing::TestWithParam<const char*> {};

TEST_P(Followed, ends_in_the_figures_of_the_whole_recording) {
  const LiveReport live = read_whole(data(GetParam()));
  const auto whole = Recording::open(data(GetParam())).value();
  ASSERT_EQ(live.devices.size(), whole->replays().size());
  for (std::size_t index = 0; index < live.devices.size(); ++index) {
    const LiveDevice& device = live.devices[index];
    const DeviceReplay& replay = whole->replays()[index];
    const DeviceRecord& record = *whole->store().devices()[index];
    EXPECT_EQ(device.events, record.events.size());
    EXPECT_EQ(device.peak_allocated_bytes, replay.peak.allocated_bytes);
    EXPECT_EQ(device.recent_peak_allocated_bytes, replay.peak.allocated_bytes);
    EXPECT_EQ(device.peak_reserved_bytes, replay.peak_reserved_bytes);
    EXPECT_EQ(device.recent_peak_reserved_bytes, replay.peak_reserved_bytes);
    EXPECT_EQ(device.allocated_bytes, replay.end.totals.allocated_bytes);
    EXPECT_EQ(device.reserved_bytes, replay.end.totals.reserved_bytes);
    EXPECT_EQ(device.ooms, replay.counters.ooms);
    std::uint64_t by_source = 0;
    for (const std::uint64_t bytes : device.bytes_by_source) by_source += bytes;
    std::uint64_t requested = 0;
    for (std::size_t row = 0; row < record.allocations.size(); ++row) {
      if (record.allocations.is_allocated_at(row, Moment::end()))
        requested += record.allocations.requested_bytes[row];
    }
    EXPECT_EQ(by_source, requested);
  }
}

INSTANTIATE_TEST_SUITE_P(Recordings, Followed,
                         ::testing::Values("traces/cpu_training.gmp", "oom/oom_shortage.gmp",
                                           "oom/oom_limit.gmp", "oom/oom_other_processes.gmp",
                                           "oom/oom_outside_pool.gmp", "traces/everything.gmp"));

TEST(FollowedRun, whose_start_is_unknown_is_not_called_exact) {
  EXPECT_TRUE(read_whole(data("traces/cpu_training.gmp")).devices[0].is_exact);
  EXPECT_FALSE(read_whole(data("traces/everything.gmp")).devices[0].is_exact);
}

TEST(FollowedRun, says_the_same_however_its_file_grows) {
  const std::string bytes = bytes_of(data("traces/cpu_training.gmp"));
  const LiveReport whole = read_whole(data("traces/cpu_training.gmp"));
  std::mt19937 random(7);
  for (int round = 0; round < 5; ++round) {
    GrowingFile file(bytes);
    const auto run = FollowedRun::open(file.path()).value();
    std::uint64_t most_recent = 0;
    LiveReport last;
    while (!last.ending) {
      file.grow(std::uniform_int_distribution<std::size_t>(1, 3000)(random));
      const Result<LiveReport> report = run->read(kEverything, 20, 20);
      ASSERT_TRUE(report.ok());
      last = report.value();
      if (!last.devices.empty())
        most_recent = std::max(most_recent, last.devices[0].recent_peak_allocated_bytes);
    }
    ASSERT_TRUE(file.is_whole());
    EXPECT_EQ(last.devices[0].allocated_bytes, whole.devices[0].allocated_bytes);
    EXPECT_EQ(last.devices[0].peak_allocated_bytes, whole.devices[0].peak_allocated_bytes);
    EXPECT_EQ(most_recent, whole.devices[0].peak_allocated_bytes);
    EXPECT_EQ(last.devices[0].labelled_bytes, whole.devices[0].labelled_bytes);
    ASSERT_EQ(last.devices[0].steps.size(), whole.devices[0].steps.size());
    for (std::size_t step = 0; step < whole.devices[0].steps.size(); ++step) {
      EXPECT_EQ(last.devices[0].steps[step].peak_bytes, whole.devices[0].steps[step].peak_bytes);
      EXPECT_EQ(last.devices[0].steps[step].floor_bytes, whole.devices[0].steps[step].floor_bytes);
    }
  }
}

TEST(FollowedRun, has_not_ended_before_its_last_byte) {
  const std::string bytes = bytes_of(data("traces/cpu_training.gmp"));
  GrowingFile file(bytes);
  const auto run = FollowedRun::open(file.path()).value();
  file.grow(bytes.size() - 17);
  EXPECT_FALSE(run->read(kEverything, 1, 1).value().ending);
  file.grow(1);
  EXPECT_TRUE(run->read(kEverything, 1, 1).value().ending);
}

TEST(FollowedRun, reads_no_more_at_once_than_asked) {
  const auto run = FollowedRun::open(data("traces/cpu_training.gmp")).value();
  EXPECT_TRUE(run->read(1, 1, 1).value().is_behind);
  LiveReport report;
  for (int reads = 0; reads < 10000 && !report.ending; ++reads) report = run->read(1, 1, 1).value();
  EXPECT_TRUE(report.ending);
}

TEST(FollowedRun, that_becomes_shorter_is_refused) {
  GrowingFile file(bytes_of(data("traces/cpu_training.gmp")));
  file.grow(3000);
  const auto run = FollowedRun::open(file.path()).value();
  ASSERT_TRUE(run->read(kEverything, 1, 1).ok());
  file.shrink(100);
  const Result<LiveReport> report = run->read(kEverything, 1, 1);
  ASSERT_FALSE(report.ok());
  EXPECT_THAT(report.error().message, HasSubstr("became shorter"));
}

TEST(FollowedRun, that_is_removed_is_refused) {
  GrowingFile file(bytes_of(data("traces/cpu_training.gmp")));
  file.grow(3000);
  const auto run = FollowedRun::open(file.path()).value();
  std::filesystem::remove(file.path());
  const Result<LiveReport> report = run->read(kEverything, 1, 1);
  ASSERT_FALSE(report.ok());
  EXPECT_THAT(report.error().message, HasSubstr("removed or replaced"));
}

TEST(FollowedRun, that_is_damaged_is_refused_where_it_is) {
  std::string bytes = bytes_of(data("traces/cpu_training.gmp"));
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  GrowingFile file(bytes);
  file.grow(bytes.size());
  const Result<LiveReport> report = FollowedRun::open(file.path()).value()->read(kEverything, 1, 1);
  ASSERT_FALSE(report.ok());
  EXPECT_THAT(report.error().where, HasSubstr("byte "));
}

TEST(FollowedRun, that_is_damaged_still_reports_what_came_before) {
  std::string bytes = bytes_of(data("traces/cpu_training.gmp"));
  bytes[bytes.size() * 3 / 4] = static_cast<char>(bytes[bytes.size() * 3 / 4] ^ 1);
  GrowingFile file(bytes);
  file.grow(bytes.size());
  const auto run = FollowedRun::open(file.path()).value();
  ASSERT_FALSE(run->read(kEverything, 1, 1).ok());
  const LiveReport report = run->report(20, 20);
  ASSERT_EQ(report.devices.size(), 1U);
  EXPECT_GT(report.devices[0].events, 0U);
  EXPECT_FALSE(report.ending);
}

TEST(FollowedRun, adds_to_a_sample_of_the_card_what_the_pool_has_taken_since) {
  const LiveDevice device = read_whole(data("oom/oom_shortage.gmp")).devices[0];
  ASSERT_TRUE(device.used_bytes && device.used_now_bytes && device.outside_pool_bytes);
  EXPECT_LE(*device.used_now_bytes, *device.total_bytes);
  // Nothing else happened on that card: its use is the pool, what is outside of it, and others.
  const std::uint64_t beside = *device.used_now_bytes - device.reserved_bytes;
  EXPECT_GE(beside, *device.outside_pool_bytes);
  EXPECT_EQ(*device.recent_peak_used_bytes, beside + device.recent_peak_reserved_bytes);
}

// Each step has its own name, and labels that no other step has, as gradients that are made anew.
void write_steps(const std::string& path, std::uint32_t steps) {
  Origin origin;
  origin.kind = "live";
  origin.device_type = "cpu";
  TraceOptions options;
  options.existing = FileSink::Existing::replace;
  auto writer = TraceWriter::open(path, origin, {}, options);
  ASSERT_TRUE(writer);
  const StringId weight = writer.value()->add_string("weight.grad");
  const std::uint32_t stream = writer.value()->add_stream(0);
  for (std::uint32_t step = 0; step < steps; ++step) {
    const std::uint64_t address = 4096 + 64 * std::uint64_t{step};
    EventColumns events;
    for (const Action action : {Action::alloc, Action::free_completed}) {
      Event event;
      event.action = action;
      event.address = address;
      event.size_bytes = 64;
      event.stream = stream;
      events.push_back(event);
    }
    writer.value()->add_events(0, std::move(events));
    Annotation annotation;
    annotation.name = writer.value()->add_string("gpumemprof.step#" + std::to_string(step));
    writer.value()->add_annotation(annotation);
    std::vector<Label> labels(40);
    for (std::size_t row = 0; row < labels.size(); ++row)
      labels[row] = {LabelKind::gradient, address + row, weight};
    Labelling labelling;
    labelling.set = writer.value()->add_label_set(labels);
    labelling.before_event = 2 * step + 1;
    writer.value()->add_labelling(labelling);
    writer.value()->add_phase_mark({0, PhaseMark::Kind::step_start, step, 2 * step});
  }
  ASSERT_TRUE(writer.value()->close("exit"));
}

TEST(FollowedRun, keeps_no_more_of_a_longer_run) {
  const std::string path = ::testing::TempDir() + "/steps_" + std::to_string(::getpid()) + ".gmp";
  for (const std::uint32_t steps : {100U, 15'000U}) {
    write_steps(path, steps);
    auto run = FollowedRun::open(path);
    ASSERT_TRUE(run);
    LiveReport report;
    do {
      const Result<LiveReport> read = run.value()->read(std::uint64_t{1} << 20, 20, 20);
      ASSERT_TRUE(read);
      report = read.value();
    } while (report.is_behind);
    ASSERT_EQ(report.devices.size(), 1U);
    EXPECT_EQ(report.devices.front().events, 2 * std::uint64_t{steps});
    EXPECT_EQ(report.devices.front().steps.back().number, steps);
    EXPECT_LE(run.value()->label_count(), LiveLabels::kMostLabels);
    EXPECT_LE(run.value()->name_count(), 10U);
  }
  std::filesystem::remove(path);
}

// Every kind before and after every other.
TEST(FollowedRun, knows_memory_that_two_labels_name_by_the_one_that_reports_do) {
  const std::string path = ::testing::TempDir() + "/labels_" + std::to_string(::getpid()) + ".gmp";
  TraceOptions options;
  options.existing = FileSink::Existing::replace;
  Origin origin;
  origin.kind = "live";
  origin.device_type = "cpu";
  auto writer = TraceWriter::open(path, origin, {}, options);
  ASSERT_TRUE(writer);
  const StringId name = writer.value()->add_string("name");
  Event event;
  event.action = Action::alloc;
  event.stream = writer.value()->add_stream(0);
  EventColumns events;
  std::array<std::vector<Label>, 2> labels;
  for (std::size_t pair = 0; pair < kLabelKindCount * kLabelKindCount; ++pair) {
    event.address = 4096 * (pair + 1);
    event.size_bytes = std::uint64_t{1} << pair;
    events.push_back(event);
    labels[0].push_back({static_cast<LabelKind>(pair / kLabelKindCount), event.address, name});
    labels[1].push_back({static_cast<LabelKind>(pair % kLabelKindCount), event.address, name});
  }
  const auto count = static_cast<std::uint32_t>(events.size());
  writer.value()->add_events(0, std::move(events));
  for (const std::vector<Label>& set : labels)
    writer.value()->add_labelling({0, writer.value()->add_label_set(set), count});
  ASSERT_TRUE(writer.value()->close("exit"));

  const LiveReport live = read_whole(path);
  const auto recording = Recording::open(path);
  std::filesystem::remove(path);
  ASSERT_TRUE(recording);
  const Result<Overview> report = recording.value()->overview();
  ASSERT_TRUE(report);
  const DeviceSources& sources = report.value().devices.front().sources;
  for (const MemorySource source : kMemorySources)
    EXPECT_EQ(live.devices.front().bytes_by_source[static_cast<std::size_t>(source)],
              sources.figure(source).bytes_at_peak)
        << memory_source_info(source).name;
}

TEST(LiveLabels, of_the_last_sets_are_kept_and_of_those_that_are_used) {
  LiveLabels labels;
  std::vector<Label> one(100);
  one.front().address = 7;
  const std::uint32_t used = labels.add(one);
  const std::uint32_t unused = labels.add(one);
  std::uint32_t last = unused;
  for (std::size_t added = 0; added < 3 * LiveLabels::kMostLabels; added += 100) {
    last = labels.add(one);
    ASSERT_EQ(labels.used(used).size(), 100U);
    ASSERT_LE(labels.size(), LiveLabels::kMostLabels);
  }
  EXPECT_EQ(labels.used(used).front().address, 7U);
  EXPECT_EQ(labels.used(last).size(), 100U);
  EXPECT_TRUE(labels.used(unused).empty());
  EXPECT_TRUE(labels.used(last + 1).empty());
}

TEST(LiveNotices, tell_of_failures_before_growth_and_losses) {
  LiveReport report;
  LiveDevice& device = report.devices.emplace_back();
  device.name = "cuda:0";
  device.lost_events = 3;
  device.ooms = 2;
  device.retries = 5;
  LiveSite site;
  site.file = "train.py";
  site.line = 7;
  site.growth_bytes_per_step = 4096.0;
  device.sites = {site};
  report.alerts = {"headroom of cuda:0 is 3.8 % (headroom<5%)"};
  std::vector<std::string> kinds;
  for (const LiveNotice& notice : find_notices(report)) kinds.push_back(notice.kind);
  EXPECT_THAT(kinds,
              ::testing::ElementsAre("out_of_memory", "alert", "retries", "growth", "lost_events"));
}

TEST(LiveNotices, do_not_speak_of_what_is_well_or_too_small) {
  LiveReport report;
  LiveDevice& device = report.devices.emplace_back();
  device.retries = 0;
  LiveSite site;
  site.growth_bytes_per_step = 4.0;
  device.sites = {site};
  EXPECT_THAT(find_notices(report), ::testing::IsEmpty());
}

TEST(LiveNotices, say_where_a_retry_is_in_doubt) {
  LiveReport report;
  LiveDevice& device = report.devices.emplace_back();
  device.unclear_retries = 2;
  const std::vector<LiveNotice> notices = find_notices(report);
  ASSERT_EQ(notices.size(), 1U);
  EXPECT_THAT(notices[0].text, HasSubstr("or the program called empty_cache()"));
}

PhaseMark mark(PhaseMark::Kind kind, std::uint32_t number) { return {0, kind, number, 0}; }

TEST(LiveSteps, of_two_optimizers_end_with_the_last) {
  LiveSteps steps;
  for (int step = 0; step < 3; ++step) {
    for (std::uint32_t optimizer : {0U, 1U}) {
      steps.note(100 + optimizer);
      steps.take(mark(PhaseMark::Kind::optimizer_start, optimizer));
      steps.note(50);
      steps.take(mark(PhaseMark::Kind::optimizer_end, optimizer));
    }
  }
  const std::vector<LiveStep> shown = steps.latest(10);
  ASSERT_EQ(shown.size(), 3U);
  EXPECT_EQ(shown[0].number, 1U);
  EXPECT_EQ(shown[1].peak_bytes, 101U);
  EXPECT_EQ(shown[1].floor_bytes, 50U);
  EXPECT_EQ(shown[2].number, 3U);
}

TEST(LiveSteps, are_those_that_the_program_marks_if_it_does) {
  LiveSteps steps;
  steps.note(10);
  steps.take(mark(PhaseMark::Kind::step_start, 0));
  for (std::uint32_t step = 1; step < 4; ++step) {
    for (int part = 0; part < 100; ++part) {
      steps.note(std::uint64_t{100} * step);
      steps.take(mark(PhaseMark::Kind::optimizer_start, 0));
      steps.take(mark(PhaseMark::Kind::optimizer_end, 0));
    }
    steps.take(mark(PhaseMark::Kind::step_start, step));
  }
  const std::vector<LiveStep> shown = steps.latest(10);
  ASSERT_EQ(shown.size(), 4U);
  EXPECT_EQ(shown[0].peak_bytes, 100U);
  EXPECT_EQ(shown[2].peak_bytes, 300U);
}

}  // namespace
}  // namespace gpumemprof
