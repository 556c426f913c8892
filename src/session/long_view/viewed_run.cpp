#include "session/long_view/viewed_run.h"

#include <chrono>
#include <filesystem>
#include <new>

#include "index/index_maker.h"
#include "session/excerpt/long_file.h"
#include "session/excerpt/passes.h"
#include "windows/windowed_run.h"

namespace gpumemprof {
namespace {

// A recorder that has something to write does so within a second.
constexpr auto kStillWritten = std::chrono::seconds(2);

bool is_still_written(const std::string& path) {
  const auto changed = last_change(path);
  return changed && std::filesystem::file_time_type::clock::now() - *changed < kStillWritten;
}

enum class Made : std::uint8_t { yes, must_be_read_whole };

// Reads the recording twice, as a report does, and leaves the index beside it.
class IndexMaking {
 public:
  IndexMaking(const std::string& path, const WindowSizes& sizes, const OpenOptions& options)
      : path_(path),
        passes_(path, options),
        windowed_(
            path, [this](EventSink& sink) { return passes_.deliver(sink, maker_.get()); }, sizes) {}

  Result<Made> run() {
    const Result<bool> surveyed = windowed_.survey();
    if (!surveyed) return surveyed.error();
    // As for a report, which would otherwise find an index that proves less.
    if (!surveyed.value() || (!forced_window() && windowed_.needs_whole_for_proof()))
      return Made::must_be_read_whole;
    windowed_.let_prove_failures([this](EventSink& sink) { return passes_.deliver_again(sink); });
    IndexOptions options;
    options.identity = passes_.identity();
    if (const std::optional<std::uint32_t> forced = forced_window())
      options.checkpoint_events = *forced;
    Result<std::unique_ptr<IndexMaker>> maker = IndexMaker::create(path_, options);
    if (!maker) return maker.error();
    maker_ = std::move(maker).value();
    Result<Overview> overview = windowed_.overview({}, maker_.get());
    if (!overview) return overview.error();
    const Status written = maker_->finish(windowed_.store(), overview.value(), windowed_.at_end());
    if (!written) return written.error();
    return Made::yes;
  }

 private:
  std::string path_;
  RunPasses passes_;
  WindowedRun windowed_;
  std::unique_ptr<IndexMaker> maker_;  // while the second pass runs
};

Result<Made> make_index(const std::string& path, const WindowSizes& sizes,
                        const OpenOptions& options) {
  try {
    return IndexMaking(path, sizes, options).run();
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::environment, "this machine does not have enough memory to open it",
                 path, "open it on a machine with more memory"};
  }
}

Result<ViewedRun> open_whole(const std::string& path, const OpenOptions& options) {
  Result<std::shared_ptr<const Recording>> whole = Recording::open(path, options);
  if (!whole) return whole.error();
  return ViewedRun(std::move(whole).value());
}

Result<ViewedRun> open_indexed(const std::string& path, const std::string& indexed,
                               std::unique_ptr<WorkFolder> folder,
                               const ViewedRunOptions& options) {
  Result<std::shared_ptr<const LongRun>> run =
      LongRun::open(path, indexed, std::move(folder), options.most_devices);
  if (!run) return run.error();
  return ViewedRun(std::move(run).value());
}

enum class Held : std::uint8_t { as_link, as_copy };

// With the index in a temporary folder.
Result<ViewedRun> open_elsewhere(const std::string& path, const WindowSizes& sizes, Held held,
                                 const ViewedRunOptions& options) {
  Result<std::unique_ptr<WorkFolder>> folder = WorkFolder::make();
  if (!folder) return folder.error();
  const Status there =
      held == Held::as_link ? folder.value()->link(path) : folder.value()->copy(path);
  if (!there) return there.error();
  const std::string indexed = folder.value()->place_of(path);
  const Result<Made> made = make_index(indexed, sizes, options.open);
  if (!made) return made.error();
  if (made.value() == Made::must_be_read_whole) return open_whole(path, options.open);
  return open_indexed(path, indexed, std::move(folder).value(), options);
}

}  // namespace

Result<ViewedRun> open_viewed_run(const std::string& path, const ViewedRunOptions& options) {
  const std::optional<WindowSizes> sizes = window_sizes(path);
  if (!sizes) return open_whole(path, options.open);
  if (forced_window()) return open_elsewhere(path, *sizes, Held::as_link, options);
  IndexState state = IndexState::missing;
  if (RunIndex::open(path, state) != nullptr) return open_indexed(path, path, nullptr, options);
  if (is_still_written(path)) return open_elsewhere(path, *sizes, Held::as_copy, options);
  const Result<Made> made = make_index(path, *sizes, options.open);
  if (made && made.value() == Made::must_be_read_whole) return open_whole(path, options.open);
  if (!made && made.error().code != ErrorCode::environment) return made.error();
  Result<ViewedRun> run = made ? open_indexed(path, path, nullptr, options)
                               : open_elsewhere(path, *sizes, Held::as_link, options);
  if (!run) return run;
  if (state == IndexState::stale)
    run.value().note =
        index_path(path) + " belonged to another recording or version: it was made again";
  if (!made)
    run.value().note = "no index was written beside it, so opening it again takes as long: " +
                       made.error().sentence();
  return run;
}

}  // namespace gpumemprof
