// Whatever a history looks like, every allocation has one source and the sources add up.
#include <gtest/gtest.h>

#include <random>

#include "analysis/run_builder.h"
#include "base/bytes.h"

namespace gpumemprof {
namespace {

// Random allocations and frees under random stacks.
void build_randomly(RunBuilder& run, std::uint32_t seed) {
  std::mt19937 random(seed);
  const auto below = [&](std::uint32_t bound) {
    return static_cast<std::size_t>(random() % bound);
  };
  const std::vector<StackId> stacks = {
      StackId(),
      run.user(),
      run.model_to(),
      run.forward(),
      run.recompute(),
      run.optimizer(),
      run.zero_grad(),
      run.stack({"<module>@/train/train.py", "__init__@/train/model.py"}),
      run.stack({"<module>@/train/train.py", "__init__@torch/nn/parallel/distributed.py"}),
      run.stack({"<module>@/train/train.py", "backward@torch/_tensor.py"}),
      run.stack({"hook@/train/train.py"})};
  const std::size_t events = 50 + below(300);
  const std::size_t forgets_at = below(3) == 0 ? below(200) : events;
  std::vector<std::size_t> live;
  std::size_t stack = 0;
  for (std::size_t event = 0; event < events; ++event) {
    if (event == forgets_at) run.forget();
    if (below(6) == 0) stack = below(static_cast<std::uint32_t>(stacks.size()));
    if (below(40) == 0) run.oom(kMiB, stacks[stack]);
    if (!live.empty() && below(5) < 2) {
      const std::size_t at = below(static_cast<std::uint32_t>(live.size()));
      run.free(live[at], stacks[stack]);
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(at));
    } else {
      live.push_back(run.alloc(1 + below(3) * 1000 + below(4) * kMiB, stacks[stack]));
    }
  }
  run.alloc(100, StackId());  // so that there is an event after the dropped ones
  run.finish();
}

class SourcesSum : public ::testing::TestWithParam<std::uint32_t> {};

TEST_P(SourcesSum, at_every_moment_equals_what_is_allocated) {
  RunBuilder run;
  build_randomly(run, GetParam());
  const AllocationColumns& rows = run.record().allocations;
  const AllocationLabels& labels = run.record().labels;
  ASSERT_EQ(labels.source.size(), rows.size());
  for (const MemorySource source : labels.source.span())
    ASSERT_LT(static_cast<std::size_t>(source), kMemorySourceCount);

  SourceBytes most;
  for (std::uint32_t event = 0; event < run.record().events.size(); ++event) {
    const Moment moment = Moment::after(event);
    std::uint64_t allocated = 0;
    for (std::size_t row = 0; row < rows.size(); ++row) {
      if (rows.is_allocated_at(row, moment)) allocated += rows.size_bytes[row];
    }
    const SourceBytes bytes = sources_at(run.record(), labels, moment);
    ASSERT_EQ(bytes.allocated(), allocated) << "after event " << event;
    for (std::size_t source = 0; source < kMemorySourceCount; ++source)
      most.by_source[source] = std::max(most.by_source[source], bytes.by_source[source]);
  }

  // The sweep agrees with the scan at one moment.
  SourcesOptions options;
  options.series_points = 1 + GetParam() % 60;
  const DeviceSources sources = run.sources(options);
  EXPECT_LE(sources.series.event.size(), options.series_points);
  for (std::size_t point = 0; point < sources.series.event.size(); ++point) {
    EXPECT_EQ(sources.series.bytes[point],
              sources_at(run.record(), labels, Moment::after(sources.series.event[point])));
  }
  for (const PhaseFigures& phase : sources.phases) {
    EXPECT_EQ(phase.at_peak, sources_at(run.record(), labels, Moment::after(phase.peak_event)));
    EXPECT_EQ(phase.at_peak.allocated(), phase.peak_bytes);
  }
  std::uint64_t at_peak = sources.rounding.bytes_at_peak;
  for (const SourceFigure& figure : sources.figures) at_peak += figure.bytes_at_peak;
  EXPECT_EQ(at_peak, sources.peak_bytes);
  for (std::size_t source = 0; source < kMemorySourceCount; ++source)
    EXPECT_GE(sources.figures[source].bytes_max, most.by_source[source]);
}

TEST_P(SourcesSum, phases_cover_every_event_once) {
  RunBuilder run;
  build_randomly(run, GetParam());
  const std::vector<PhaseSpan>& spans = run.phases();
  ASSERT_FALSE(spans.empty());
  EXPECT_EQ(spans.front().first_event, 0U);
  for (std::size_t index = 1; index < spans.size(); ++index) {
    EXPECT_LT(spans[index - 1].first_event, spans[index].first_event);
    EXPECT_LE(spans[index - 1].step, spans[index].step);
  }
  EXPECT_LT(spans.back().first_event, run.record().events.size());
}

INSTANTIATE_TEST_SUITE_P(Seeds, SourcesSum, ::testing::Range(0U, 60U));

}  // namespace
}  // namespace gpumemprof
