#include "session/reported_run.h"

#include <new>

#include "session/excerpt/long_file.h"

namespace gpumemprof {
namespace {

Error out_of_memory(const std::string& path) {
  return {ErrorCode::environment, "this machine does not have enough memory to open it", path,
          "open it on a machine with more memory"};
}

}  // namespace

Result<std::unique_ptr<ReportedRun>> ReportedRun::open(const std::string& path,
                                                       const OpenOptions& options) {
  std::unique_ptr<ReportedRun> run(new ReportedRun());
  run->path_ = path;
  if (const std::optional<WindowSizes> sizes = window_sizes(path)) {
    const auto passes = std::make_shared<std::uint64_t>(0);
    const auto deliver = [path, options, passes](EventSink& sink) -> Status {
      OpenOptions pass = options;
      if (options.progress) {
        pass.progress = [&options, done_before = *passes](std::uint64_t done, std::uint64_t total) {
          options.progress(done_before * total + done, 2 * total);
        };
      }
      ++*passes;
      const Result<std::unique_ptr<EventSource>> source = open_source(path, pass);
      if (!source) return source.error();
      return source.value()->deliver(sink);
    };
    run->windowed_ = std::make_unique<WindowedRun>(path, deliver, *sizes);
    run->has_index_ = !forced_window();
    auto index = std::make_unique<RunIndex>();
    const IndexState state = run->has_index_ ? read_index(path, *index) : IndexState::missing;
    if (state == IndexState::stale)
      run->note_ = index_path(path) + " belongs to another recording or version: it is made again";
    if (state == IndexState::good) {
      run->index_ = std::move(index);
      return run;
    }
    const Result<bool> surveyed = run->survey();
    if (!surveyed) return surveyed.error();
    const bool is_proven_whole = run->has_index_ && run->windowed_->is_failure_provable();
    if (surveyed.value() && !is_proven_whole) return run;
    run->windowed_.reset();
    run->note_.clear();
  }
  Result<std::shared_ptr<const Recording>> whole = Recording::open(path, options);
  if (!whole) return whole.error();
  run->whole_ = std::move(whole).value();
  return run;
}

Result<bool> ReportedRun::survey() {
  try {
    is_surveyed_ = true;
    return windowed_->survey();
  } catch (const std::bad_alloc&) {
    return out_of_memory(path_);
  }
}

Result<Overview> ReportedRun::overview(const OverviewOptions& options) {
  if (whole_) return whole_->overview(options);
  if (index_ && options.at.kind != AskedMoment::Kind::event) return from_index(options);
  if (!is_surveyed_) {
    const Result<bool> surveyed = survey();
    if (!surveyed) return surveyed.error();
  }
  try {
    Result<Overview> made = windowed_->overview(options);
    const bool is_all = made && !options.device && options.at.kind == AskedMoment::Kind::peak;
    // A recording that goes on would have another index with every report.
    const std::optional<Ending>& ending = windowed_->store().origin().ending;
    const bool is_closed = ending && ending->is_closed;
    if (!is_all || !is_closed || !has_index_ || index_) return made;
    const Status written =
        write_index(path_, windowed_->store(), made.value(), windowed_->at_end());
    if (!written)
      note_ = "no index was written beside it, so the next report takes as long: " +
              written.error().sentence();
    return made;
  } catch (const std::bad_alloc&) {
    return out_of_memory(path_);
  }
}

Result<Overview> ReportedRun::from_index(const OverviewOptions& options) const {
  Overview overview = index_->at_peak;
  if (options.at.kind == AskedMoment::Kind::end)
    overview = overview_at_end(std::move(overview), index_->at_end);
  if (!options.device) return overview;
  std::string known;
  for (const DeviceOverview& device : overview.devices)
    known += (known.empty() ? "" : ", ") + device.name;
  std::erase_if(overview.devices,
                [&](const DeviceOverview& device) { return device.device != *options.device; });
  if (overview.devices.empty()) return no_such_device(path_, *options.device, known);
  return overview;
}

const Store& ReportedRun::store() const {
  if (whole_) return whole_->store();
  return is_surveyed_ || !index_ ? windowed_->store() : *index_->store;
}

}  // namespace gpumemprof
