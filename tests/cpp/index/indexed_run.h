// IndexedRun: a recording, its index with small windows and many checkpoints, and the same run read
// whole.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>

#include "index/index_maker.h"
#include "index/run_index.h"
#include "long_run/long_run.h"
#include "report/json/overview_json.h"
#include "session/recording.h"
#include "trace/chapters/chapter_source.h"
#include "windows/windowed_run.h"

namespace gpumemprof {

inline std::string run_path(const std::string& name) {
  // Tests run side by side, each in a process of its own.
  return (std::filesystem::path(testing::TempDir()) / (std::to_string(getpid()) + "." + name))
      .string();
}

struct IndexedRun {
  std::string path;
  // The report that the index was made of: about the peak and about the end.
  std::string peak_json;
  std::string end_json;
  std::shared_ptr<const Recording> whole;
  std::unique_ptr<RunIndex> index;  // null: it has no start, or is no long recording
};

// A file, or a folder of chapters.
inline Result<std::unique_ptr<PlacedSource>> placed_source(const std::string& path) {
  if (is_folder(path)) {
    Result<std::unique_ptr<ChapterSource>> chapters = ChapterSource::open(path);
    if (!chapters) return chapters.error();
    return std::unique_ptr<PlacedSource>(std::move(chapters).value());
  }
  Result<std::unique_ptr<TraceReader>> reader = TraceReader::open(path);
  if (!reader) return reader.error();
  return std::unique_ptr<PlacedSource>(std::move(reader).value());
}

// Reads the recording as a report does, and leaves the index beside it. False: it has none.
inline bool write_index(IndexedRun& run, std::uint32_t window, std::uint64_t checkpoint_events) {
  std::unique_ptr<IndexMaker> maker;
  WindowedRun windowed(
      run.path,
      [&](EventSink& sink) -> Status {
        const Result<std::unique_ptr<PlacedSource>> source = placed_source(run.path);
        if (!source) return source.error();
        return maker ? maker->deliver(*source.value(), sink) : source.value()->deliver(sink);
      },
      WindowSizes{window});
  const Result<bool> surveyed = windowed.survey();
  if (!surveyed || !surveyed.value()) return false;
  IndexOptions options;
  options.checkpoint_events = checkpoint_events;
  Result<std::unique_ptr<IndexMaker>> made = IndexMaker::create(run.path, options);
  EXPECT_TRUE(made);
  maker = std::move(made).value();
  Result<Overview> overview = windowed.overview({}, maker.get());
  EXPECT_TRUE(overview);
  EXPECT_TRUE(maker->finish(windowed.store(), overview.value(), windowed.at_end()));
  run.peak_json = overview_json(overview.value(), windowed.store(), kAllGroups);
  run.end_json = overview_json(overview_at_end(overview.value(), windowed.at_end()),
                               windowed.store(), kAllGroups);
  return true;
}

inline IndexedRun indexed(const std::string& path, std::uint32_t window,
                          std::uint64_t checkpoint_events) {
  IndexedRun run;
  run.path = path;
  if (!write_index(run, window, checkpoint_events)) return run;
  run.whole = Recording::open(path).value();
  IndexState state = IndexState::missing;
  run.index = RunIndex::open(path, state);
  EXPECT_EQ(state, IndexState::good);
  return run;
}

// A training run, made once.
inline const IndexedRun& indexed_run() {
  static const IndexedRun kRun = [] {
    long_run::LongRunOptions options;
    options.path = run_path("indexed_run.gmp");
    options.events = 200'000;
    options.flush_every = 3'000;
    EXPECT_TRUE(long_run::make_long_run(options));
    return indexed(options.path, 20'000, 15'000);
  }();
  return kRun;
}

}  // namespace gpumemprof
