// Verdicts about handwritten runs and tables: leaks are found with their line and their pace, and
// the usual innocents are not.
#include "analysis/leaks/leaks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <functional>

#include "analysis/leaks/fill_table.h"
#include "analysis/leaks/site_trend.h"
#include "analysis/run_builder.h"
#include "base/bytes.h"

namespace gpumemprof {
namespace {

constexpr std::uint64_t kKeptBytes = 256 * kKiB;

// Trains one weight; `each` runs at the end of every step.
class TrainingRun : public RunBuilder {
 public:
  explicit TrainingRun(int steps, const std::function<void(TrainingRun&, int)>& each,
                       const std::function<std::uint64_t(int)>& activations = nullptr) {
    reuse_freed();
    model_ = alloc(4 * kMiB, model_to());
    for (int step = 1; step <= steps; ++step) {
      const std::size_t saved = alloc(activations ? activations(step) : 8 * kMiB, forward());
      const std::size_t gradient = alloc(4 * kMiB, autograd());
      free(saved, autograd());
      if (step == 1) alloc(4 * kMiB, optimizer());
      free(alloc(4 * kMiB, optimizer()), optimizer());
      free(gradient, zero_grad());
      each(*this, step);
    }
    finish();
  }

  StackId keeping() { return stack({"<module>@/train/train.py", "keep@/train/log.py"}); }
  void keep(std::uint64_t bytes = kKeptBytes) { kept.push_back(alloc(bytes, keeping())); }
  void drop() {
    free(kept.front(), keeping());
    kept.pop_front();
  }
  void free_model() { free(model_, user()); }
  // The last one is replaced by another of this size.
  void replace(std::uint64_t bytes) {
    const std::size_t now = alloc(bytes, keeping());
    if (!kept.empty()) drop();
    kept.push_back(now);
  }
  [[nodiscard]] DeviceLeaks leaks(const LeaksOptions& options = {}) const {
    return find_device_leaks(store(), record(), replay(), phases(), options);
  }
  [[nodiscard]] LeakVerdict verdict() const { return leaks().verdict; }
  // A handwritten run has a segment for each block that is not exactly as large as one before it:
  // where sizes vary, or are tiny, what its pool does is left out.
  [[nodiscard]] LeakVerdict verdict_without_pool() const {
    const DecideOptions options;
    const StepFloors floors = find_floors(
        record(), find_repetitions(store(), record(), phases(), options.fewest_floors).spans);
    FloorTable table = fill_table(store(), record(), floors);
    for (DeviceFloor& floor : table.floors) floor.reserved_bytes = 0;
    return decide(table, options).verdict;
  }

  std::deque<std::size_t> kept;

 private:
  std::size_t model_ = 0;
};

TEST(Leaks, what_every_step_keeps_is_found_with_its_line_pace_and_age) {
  const TrainingRun run(16, [](TrainingRun& trained, int) { trained.keep(); });
  const DeviceLeaks found = run.leaks();
  ASSERT_EQ(found.verdict, LeakVerdict::leak);
  ASSERT_EQ(found.leaks.size(), 1U);
  const LeakSite& leak = found.leaks.front();
  EXPECT_EQ(run.store().text(run.store().frame(run.store().stacks().frame(leak.stack)).file),
            "/train/log.py");
  EXPECT_NEAR(leak.bytes_per_step, kKeptBytes, 1);
  EXPECT_NEAR(leak.blocks_per_step, 1, 0.1);
  EXPECT_LE(leak.first_step, 3U);
  EXPECT_GE(leak.oldest_age_steps, 13U);
  EXPECT_FALSE(leak.advice.empty());
  EXPECT_THAT(leak.doubt, testing::HasSubstr("until it is full"));
}

TEST(Leaks, what_a_leak_is_equals_what_reports_call_it) {
  const TrainingRun results(
      16, [](TrainingRun& run, int) { run.kept.push_back(run.alloc(kKeptBytes, run.forward())); });
  ASSERT_EQ(results.verdict(), LeakVerdict::leak);
  EXPECT_EQ(results.leaks().leaks.front().source, MemorySource::activations);
  EXPECT_EQ(results.source(results.kept.back()), MemorySource::activations);
  const TrainingRun inputs(16, [](TrainingRun& run, int step) {
    run.keep();
    if (step == 1) run.label(run.kept.back(), LabelKind::input, "input.0");
  });
  ASSERT_EQ(inputs.verdict(), LeakVerdict::leak);
  EXPECT_EQ(inputs.leaks().leaks.front().source, MemorySource::inputs);
  EXPECT_EQ(inputs.source(inputs.kept.back()), MemorySource::inputs);
}

// A program may free memory in its second step, as DistributedDataParallel does with its first
// buckets: then the floor of that step lies behind what it keeps, and the next floor before it.
TEST(Leaks, a_leak_begins_with_what_the_warm_up_kept) {
  for (const std::uint32_t period : {1U, 3U}) {
    constexpr std::uint32_t kFloors = 30;
    TrendFollower followed(kFloors);
    FloorChange kept;
    kept.born_bytes = kept.kept_bytes = kKeptBytes;
    kept.born_blocks = 1;
    followed.add(1, kept);
    for (std::uint32_t floor = 2 + period; floor < kFloors; floor += period)
      followed.add(floor, kept);
    const SiteTrend trend = followed.trend();
    EXPECT_EQ(trend.trend, Trend::growing);
    EXPECT_EQ(trend.first_floor, 1U);
    const std::uint64_t rises = 1 + (kFloors - 3) / period;
    EXPECT_EQ(trend.grown_bytes, rises * kKeptBytes);
  }
}

TEST(Leaks, what_is_replaced_by_a_little_more_each_time_grows_from_its_first_size) {
  const auto run_of = [](std::uint64_t start) {
    return TrainingRun(24, [=](TrainingRun& run, int step) {
      if (step > 2) run.replace(start + static_cast<std::uint64_t>(step) * kKeptBytes);
    });
  };
  for (const std::uint64_t start : {std::uint64_t{0}, 64 * kMiB}) {
    const DeviceLeaks found = run_of(start).leaks();
    ASSERT_EQ(found.verdict, LeakVerdict::leak) << start;
    EXPECT_NEAR(found.bytes_per_step, kKeptBytes, 1);
  }
}

TEST(Leaks, a_slow_leak_and_a_late_one_are_found) {
  const TrainingRun slow(20, [](TrainingRun& run, int step) {
    if (step % 3 == 0) run.keep();
  });
  ASSERT_EQ(slow.verdict(), LeakVerdict::leak);
  EXPECT_NEAR(slow.leaks().bytes_per_step, kKeptBytes / 3.0, kKeptBytes * 0.02);
  const TrainingRun late(27, [](TrainingRun& run, int step) {
    if (step > 12) run.keep();
  });
  ASSERT_EQ(late.verdict(), LeakVerdict::leak);
  EXPECT_NEAR(late.leaks().leaks.front().first_step, 13, 1);
}

TEST(Leaks, a_tensor_that_is_replaced_by_a_larger_one_leaks_unless_everything_grows) {
  const auto grow = [](TrainingRun& run, int step) {
    run.replace(static_cast<std::uint64_t>(step) * kKeptBytes);
  };
  EXPECT_EQ(TrainingRun(16, grow).verdict(), LeakVerdict::leak);
  const TrainingRun longer(16, grow,
                           [](int step) { return static_cast<std::uint64_t>(step) * 8 * kMiB; });
  EXPECT_EQ(longer.verdict_without_pool(), LeakVerdict::clean);
  EXPECT_THAT(longer.leaks().notes, testing::ElementsAre(testing::HasSubstr("inputs")));
}

TEST(Leaks, buffers_that_are_bounded_do_not_leak) {
  const TrainingRun bounded(30, [](TrainingRun& run, int) {
    run.keep();
    if (run.kept.size() > 8) run.drop();
  });
  EXPECT_EQ(bounded.verdict(), LeakVerdict::warm_up);
  const TrainingRun cleared(30, [](TrainingRun& run, int step) {
    run.keep();
    while (step % 7 == 0 && !run.kept.empty()) run.drop();
  });
  EXPECT_EQ(cleared.verdict(), LeakVerdict::clean);
  const TrainingRun lengths(30, [](TrainingRun& run, int step) {
    run.replace(static_cast<std::uint64_t>(1 + step * 7 % 11) * kKeptBytes);
  });
  EXPECT_EQ(lengths.verdict(), LeakVerdict::clean);
}

TEST(Leaks, what_is_freed_in_part_and_grows_all_the_same_leaks) {
  const TrainingRun run(40, [](TrainingRun& trained, int step) {
    trained.keep();
    if (step % 5 != 0) return;
    for (int freed = 0; freed < 3; ++freed) trained.drop();
  });
  ASSERT_EQ(run.verdict(), LeakVerdict::leak);
  EXPECT_NEAR(run.leaks().bytes_per_step, kKeptBytes * 2.0 / 5.0, kKeptBytes * 0.05);
}

TEST(Leaks, little_memory_and_few_steps_say_nothing) {
  const TrainingRun scalars(40, [](TrainingRun& run, int) { run.keep(4); });
  EXPECT_EQ(scalars.verdict_without_pool(), LeakVerdict::clean);
  const TrainingRun few(5, [](TrainingRun& run, int) { run.keep(); });
  EXPECT_EQ(few.verdict(), LeakVerdict::too_short);
}

class DroppingRun : public TrainingRun {
 public:
  explicit DroppingRun(bool frees_model)
      : TrainingRun(16, [&](TrainingRun& run, int step) {
          run.keep();
          if (step < 16) return;
          while (!run.kept.empty()) run.drop();
          if (frees_model) run.free_model();
        }) {}
};

TEST(Leaks, what_is_dropped_while_the_model_lives_on_is_no_leak) {
  const DeviceLeaks found = DroppingRun(false).leaks();
  EXPECT_NE(found.verdict, LeakVerdict::leak);
  EXPECT_TRUE(found.leaks.empty());
  EXPECT_THAT(found.notes, testing::ElementsAre(testing::HasSubstr("frees after the last one")));
  EXPECT_EQ(DroppingRun(true).leaks().verdict, LeakVerdict::leak);
}

// The first batch is made before the first step begins.
TEST(Leaks, blocks_and_bytes_count_those_of_the_first_step) {
  constexpr int kSteps = 16;
  RunBuilder run;
  run.reuse_freed();
  run.alloc(4 * kMiB, run.model_to());
  for (int step = 1; step <= kSteps; ++step) {
    run.alloc(kKeptBytes, run.stack({"<module>@/train/train.py", "keep@/train/log.py"}));
    const std::size_t saved = run.alloc(8 * kMiB, run.forward());
    const std::size_t gradient = run.alloc(4 * kMiB, RunBuilder::autograd());
    run.free(saved, RunBuilder::autograd());
    if (step == 1) run.alloc(4 * kMiB, run.optimizer());
    run.free(run.alloc(4 * kMiB, run.optimizer()), run.optimizer());
    run.free(gradient, run.zero_grad());
  }
  run.finish();
  const DeviceLeaks found =
      find_device_leaks(run.store(), run.record(), run.replay(), run.phases(), {});
  ASSERT_EQ(found.leaks.size(), 1U);
  EXPECT_EQ(found.leaks.front().blocks, std::uint64_t{kSteps});
  EXPECT_EQ(found.leaks.front().bytes, kSteps * kKeptBytes);
  EXPECT_EQ(found.leaks.front().first_step, 1U);
}

TEST(Leaks, suppressed_lines_may_grow) {
  const TrainingRun run(16, [](TrainingRun& trained, int) { trained.keep(4 * kMiB); });
  for (const char* place : {"log.py", "train/log.py"}) {
    LeaksOptions options;
    options.suppressions = {place};
    EXPECT_EQ(run.leaks(options).verdict, LeakVerdict::clean) << place;
    EXPECT_EQ(run.leaks(options).suppressed, 1U) << place;
  }
  LeaksOptions other;
  other.suppressions = {"og.py", "log.py:70000", ""};
  EXPECT_EQ(run.leaks(other).verdict, LeakVerdict::leak);
}

TEST(Leaks, steps_to_out_of_memory_follow_from_the_limit) {
  const TrainingRun run(20, [](TrainingRun& trained, int) { trained.keep(); });
  LeaksOptions options;
  EXPECT_FALSE(run.leaks(options).steps_to_oom);
  const std::uint64_t peak = run.replay().peak.allocated_bytes;
  options.memory_limit_bytes = peak + 100 * kKeptBytes;
  const std::optional<StepsLeft> left = run.leaks(options).steps_to_oom;
  ASSERT_TRUE(left);
  EXPECT_NEAR(left->steps, 100, 5);
  EXPECT_LE(left->low, left->steps);
  EXPECT_GE(left->high, left->steps);
}

TEST(Leaks, steps_to_out_of_memory_count_what_is_there_twice_while_it_is_replaced) {
  constexpr std::uint64_t kPart = 4 * kMiB;
  const TrainingRun run(30, [](TrainingRun& trained, int step) {
    trained.replace(static_cast<std::uint64_t>(step) * kPart);
  });
  LeaksOptions options;
  options.memory_limit_bytes = run.replay().peak.allocated_bytes + 100 * kPart;
  const DeviceLeaks found = run.leaks(options);
  ASSERT_EQ(found.verdict, LeakVerdict::leak);
  EXPECT_NEAR(found.bytes_per_step, static_cast<double>(kPart), 0.1 * static_cast<double>(kPart));
  ASSERT_TRUE(found.steps_to_oom);
  EXPECT_NEAR(found.steps_to_oom->steps, 50, 5);
}

// A table of one line, and of the device.
FloorTable table_of(std::size_t floors,
                    const std::function<void(DeviceFloor&, std::size_t)>& fill) {
  FloorTable table;
  for (std::size_t floor = 0; floor < floors; ++floor) {
    table.floors.emplace_back();
    table.floors.back().step = static_cast<std::uint32_t>(floor) + 1;
    table.floors.back().peak_bytes = kGiB;
    table.floors.back().reserved_bytes = 2 * kGiB;
    fill(table.floors.back(), floor);
  }
  return table;
}

TEST(Leaks, a_pool_that_grows_alone_is_fragmentation) {
  const auto grow = [](DeviceFloor& floor, std::size_t index) {
    floor.reserved_bytes += index * 50 * kMiB;
  };
  EXPECT_EQ(decide(table_of(30, grow), {}).verdict, LeakVerdict::fragmentation);
  const auto with_peak = [&](DeviceFloor& floor, std::size_t index) {
    grow(floor, index);
    floor.peak_bytes += index * 50 * kMiB;
  };
  EXPECT_EQ(decide(table_of(30, with_peak), {}).verdict, LeakVerdict::clean);
  const auto warm_up = [](DeviceFloor& floor, std::size_t index) {
    floor.reserved_bytes += std::min<std::size_t>(index, 10) * 50 * kMiB;
  };
  EXPECT_EQ(decide(table_of(30, warm_up), {}).verdict, LeakVerdict::clean);
}

TEST(Leaks, growth_outside_of_the_pool_is_its_own_verdict) {
  const auto grow = [](DeviceFloor& floor, std::size_t index) {
    if (index % 4 == 3) floor.outside_bytes = kGiB + index * 10 * kMiB;
  };
  for (const std::size_t steps : {31UL, 32UL, 33UL, 34UL})
    EXPECT_EQ(decide(table_of(steps, grow), {}).verdict, LeakVerdict::outside_pool);
  EXPECT_EQ(decide(table_of(3, grow), {}).outside_bytes_per_floor, 0);
  const auto libraries = [](DeviceFloor& floor, std::size_t index) {
    floor.outside_bytes = kGiB + std::min<std::size_t>(index, 5) * 100 * kMiB;
  };
  EXPECT_EQ(decide(table_of(31, libraries), {}).verdict, LeakVerdict::clean);
}

TEST(Leaks, what_only_the_garbage_collector_frees_are_cycles) {
  for (const bool is_collected : {true, false}) {
    FloorTable table = table_of(40, [](DeviceFloor&, std::size_t) {});
    table.sites.emplace_back();
    for (std::size_t floor = 2; floor < 40; ++floor)
      table.sites.back().add({floor, (floor / 8 + 1) * 8}, kKeptBytes, is_collected);
    EXPECT_EQ(decide(table, {}).verdict, is_collected ? LeakVerdict::cycles : LeakVerdict::clean);
  }
}

TEST(Leaks, state_of_layers_that_are_unfrozen_is_no_leak) {
  FloorTable table = table_of(30, [](DeviceFloor&, std::size_t) {});
  table.live_bytes[MemorySource::parameters] = 10 * kMiB;
  table.live_bytes[MemorySource::optimizer_state] = 12 * kMiB;
  table.sites.emplace_back();
  for (std::size_t floor = 4; floor < 30; floor += 4)
    table.sites.back().add({floor, 31}, 2 * kMiB, false);
  table.sites.back().live_bytes[MemorySource::optimizer_state] =
      static_cast<std::int64_t>(12 * kMiB);
  EXPECT_EQ(decide(table, {}).verdict, LeakVerdict::clean);
  // Optimizers that are kept have more state than parameters have use for.
  table.live_bytes[MemorySource::optimizer_state] = 60 * kMiB;
  EXPECT_EQ(decide(table, {}).verdict, LeakVerdict::leak);
}

TEST(Leaks, a_recording_without_steps_or_events_says_nothing) {
  RunBuilder run;
  run.alloc(kMiB, run.user());
  run.finish();
  EXPECT_EQ(find_device_leaks(run.store(), run.record(), run.replay(), run.phases()).verdict,
            LeakVerdict::too_short);
}

// A model that is called again and again, without backward.
TEST(Leaks, requests_of_a_server_are_compared_like_steps) {
  for (const bool keeps : {true, false}) {
    RunBuilder run;
    run.reuse_freed();
    run.alloc(4 * kMiB, run.model_to());
    const StackId request = run.stack({"<module>@/train/serve.py", "read@/train/serve.py"});
    const StackId answer =
        run.stack({"<module>@/train/serve.py", "_wrapped_call_impl@torch/nn/modules/module.py",
                   "forward@/train/model.py"});
    for (int number = 0; number < 15; ++number) {
      const std::size_t input = run.alloc(kMiB, request);
      const std::size_t hidden = run.alloc(2 * kMiB, answer);
      const std::size_t output = run.alloc(kKeptBytes, answer);
      run.free(hidden, answer);
      run.free(input, request);
      if (!keeps) run.free(output, request);
    }
    run.finish();
    const DeviceLeaks found =
        find_device_leaks(run.store(), run.record(), run.replay(), run.phases());
    EXPECT_EQ(found.verdict, keeps ? LeakVerdict::leak : LeakVerdict::clean);
    EXPECT_EQ(found.repetition, RepetitionKind::calls);
  }
}

// The cache of a sequence grows by replacement; those of sequences that are over may be kept.
TEST(Leaks, caches_of_sequences_leak_if_more_and_more_of_them_stay) {
  for (const bool keeps : {true, false}) {
    FloorTable table;
    table.floors.resize(64);
    SiteFloors site;
    for (std::size_t floor = 0; floor < 64; ++floor) {
      const std::size_t place = floor % 8;
      const bool is_last = place == 7;
      const std::size_t end = is_last && keeps ? 65 : floor + 1;
      site.add({floor, end}, (keeps ? place + 1 : floor + 1) * kMiB, false);
    }
    site.live_bytes[MemorySource::kv_cache] = static_cast<std::int64_t>(8 * kMiB);
    table.sites.push_back(site);
    DecideOptions options;
    options.is_inference = true;
    EXPECT_EQ(decide(table, options).verdict, keeps ? LeakVerdict::leak : LeakVerdict::clean);
  }
}

}  // namespace
}  // namespace gpumemprof
