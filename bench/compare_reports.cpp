// compare_reports FILE|FOLDER...: the report through an index against that of the recording read
// whole, figure by figure, the verdict about leaks included.
//
// A folder of chapters is one recording. Each recording is linked into a temporary folder, so that
// its index lies there. A snapshot, whose start is only known from its end, has no index: it is
// written first as a recorder would have written the same run. Ends with 1 if a figure differs.
#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "index/index_maker.h"
#include "index/run_index.h"
#include "report/json/overview_json.h"
#include "report/leaks/leaks_json.h"
#include "session/recording.h"
#include "trace/chapters/chapter_folder.h"
#include "trace/writer.h"
#include "windows/flushed_run.h"
#include "windows/windowed_run.h"

namespace gpumemprof {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

// The report about the peak and about the end, and the leaks.
json reports(const Overview& at_peak, const Overview& at_end, const Store& store) {
  LeaksReport leaks;
  leaks.path = at_peak.path;
  leaks.completeness = at_peak.completeness;
  for (const DeviceOverview& device : at_peak.devices) {
    if (device.leaks) leaks.devices.push_back(*device.leaks);
  }
  json found;
  found["peak"] = json::parse(overview_json(at_peak, store, kAllGroups));
  found["end"] = json::parse(overview_json(at_end, store, kAllGroups));
  found["leaks"] = json::parse(leaks_json(leaks, store));
  return found;
}

Result<json> of_whole(const std::string& path) {
  const Result<std::shared_ptr<const Recording>> recording = Recording::open(path);
  if (!recording) return recording.error();
  const Result<Overview> at_peak = recording.value()->overview();
  if (!at_peak) return at_peak.error();
  const Result<Overview> at_end =
      recording.value()->overview({AskedMoment{AskedMoment::Kind::end, 0}, {}});
  if (!at_end) return at_end.error();
  return reports(at_peak.value(), at_end.value(), recording.value()->store());
}

// Null: it has no index.
Result<json> of_index(const std::string& path, const WindowSizes& sizes) {
  std::unique_ptr<IndexMaker> maker;
  WindowedRun run(
      path,
      [&](EventSink& sink) -> Status {
        const Result<std::unique_ptr<EventSource>> source = open_source(path, {});
        if (!source) return source.error();
        auto* const placed = dynamic_cast<PlacedSource*>(source.value().get());
        return maker && placed != nullptr ? maker->deliver(*placed, sink)
                                          : source.value()->deliver(sink);
      },
      sizes);
  run.let_prove_failures([&](EventSink& sink) -> Status {
    const Result<std::unique_ptr<EventSource>> source = open_source(path, {});
    if (!source) return source.error();
    return source.value()->deliver(sink);
  });
  const Result<bool> surveyed = run.survey();
  if (!surveyed) return surveyed.error();
  if (!surveyed.value()) return json();
  IndexOptions options;
  options.checkpoint_events = sizes.events;
  Result<std::unique_ptr<IndexMaker>> made = IndexMaker::create(path, options);
  if (!made) return made.error();
  maker = std::move(made).value();
  Result<Overview> overview = run.overview({}, maker.get());
  if (!overview) return overview.error();
  const Status written = maker->finish(run.store(), overview.value(), run.at_end());
  if (!written) return written.error();
  IndexState state = IndexState::missing;
  const std::unique_ptr<RunIndex> index = RunIndex::open(path, state);
  if (index == nullptr)
    return Error{ErrorCode::bad_input, "its index cannot be opened", path, "look at it"};
  return reports(index->at_peak(), overview_at_end(index->at_peak(), index->at_end()),
                 index->store());
}

// As a live recording of the same run.
Status record_again(const std::string& path, const std::string& output) {
  const Result<std::shared_ptr<const Recording>> recording = Recording::open(path);
  if (!recording) return recording.error();
  constexpr std::uint32_t kFlush = 1000;
  FlushedRun source(*recording.value(), kFlush);
  const Store& store = recording.value()->store();
  Origin origin = store.origin();
  origin.has_start = true;
  origin.has_segments = false;
  const Result<std::unique_ptr<TraceWriter>> writer =
      TraceWriter::open(output, origin, store.settings());
  if (!writer) return writer.error();
  Status delivered = source.deliver(*writer.value());
  if (!delivered) return delivered;
  return writer.value()->close("written again");
}

std::size_t count_figures(const json& value) { return value.flatten().size(); }

class Comparison {
 public:
  explicit Comparison(const WindowSizes& sizes) : sizes_(sizes) {
    folder_ = fs::temp_directory_path() / fmt::format("gpumemprof_compare_{}", getpid());
    fs::create_directories(folder_);
  }
  ~Comparison() {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  Comparison(const Comparison&) = delete;
  Comparison& operator=(const Comparison&) = delete;

  void compare(const fs::path& file) {
    const fs::path link = folder_ / fmt::format("{}_{}", count_++, file.filename().string());
    fs::create_symlink(fs::absolute(file), link);
    Result<json> indexed = of_index(link.string(), sizes_);
    std::string read = link.string();
    if (indexed && indexed.value().is_null()) {
      ++rewritten_;
      read += ".gmp";
      const Status written = record_again(link.string(), read);
      if (written) indexed = of_index(read, sizes_);
      if (!written) indexed = written.error();
    }
    const Result<json> whole = of_whole(read);
    if (!indexed || !whole) {
      ++unreadable_;
      fmt::print("{}: {}\n", file.string(), (!indexed ? indexed : whole).error().sentence());
      return;
    }
    figures_ += count_figures(whole.value());
    ++compared_;
    const json changes = json::diff(whole.value(), indexed.value());
    different_ += changes.size();
    for (const json& change : changes) {
      const json::json_pointer at(change["path"].get<std::string>());
      fmt::print("{}{}: {} -> {}\n", file.string(), change["path"].get<std::string>(),
                 whole.value().contains(at) ? whole.value()[at].dump().substr(0, 120) : "nothing",
                 change.contains("value") ? change["value"].dump().substr(0, 120) : "nothing");
    }
    std::fflush(stdout);
  }

  int finish() const {
    fmt::print(R"({{"recordings": {}, "snapshots": {}, "unreadable": {}, "figures": {}, )"
               R"("different": {}, "window_events": {}}})"
               "\n",
               compared_, rewritten_, unreadable_, figures_, different_, sizes_.events);
    return different_ == 0 ? 0 : 1;
  }

 private:
  WindowSizes sizes_;
  fs::path folder_;
  std::size_t count_ = 0;
  std::size_t compared_ = 0;
  std::size_t rewritten_ = 0;
  std::size_t unreadable_ = 0;
  std::size_t figures_ = 0;
  std::size_t different_ = 0;
};

int compare_command(int argc, const char* const* argv) {
  CLI::App app("Compares reports through an index with those of recordings read whole");
  std::vector<std::string> paths;
  WindowSizes sizes;
  app.add_option("FILES", paths, "recordings, or folders of them")->required();
  app.add_option("--window", sizes.events, "events of a window (default: as a report takes)")
      ->check(CLI::PositiveNumber);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  }
  Comparison comparison(sizes);
  for (const std::string& path : paths) {
    std::vector<fs::path> files = {path};
    if (fs::is_directory(path) && !list_chapters(path)) {
      files.clear();
      for (const fs::directory_entry& entry : fs::recursive_directory_iterator(path)) {
        const std::string name = entry.path().filename().string();
        const bool is_recording =
            name.ends_with(".gmp") || name.ends_with(".pickle") || name.ends_with(".pickle.gz");
        if (entry.is_regular_file() && is_recording) files.push_back(entry.path());
      }
      std::ranges::sort(files);
    }
    for (const fs::path& file : files) comparison.compare(file);
  }
  return comparison.finish();
}

}  // namespace
}  // namespace gpumemprof

int main(int argc, char** argv) { return gpumemprof::compare_command(argc, argv); }
