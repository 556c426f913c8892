#include "cli/verbs/terminal/opened_run.h"

#include <utility>

#include "cli/verb.h"

namespace gpumemprof::cli {

Result<OpenedRun> OpenedRun::open(const std::string& file, const OverviewOptions& options,
                                  const Terminal& terminal) {
  OpenedRun opened;
  opened.file_ = file;
  opened.terminal_ = terminal;
  std::optional<ProgressLine> progress;
  progress.emplace("reading " + file, terminal.shows_progress);
  Result<std::unique_ptr<ReportedRun>> run = ReportedRun::open(
      file, {[&](std::uint64_t done, std::uint64_t total) { progress->update(done, total); }});
  if (!run) return run.error();
  opened.run_ = std::move(run).value();
  Result<Overview> overview = opened.run_->overview(options);
  progress.reset();
  if (!opened.run_->note().empty()) print_error(opened.run_->note());
  if (!overview) return overview.error();
  opened.overview_ = std::move(overview).value();
  return opened;
}

Status OpenedRun::take_rows(const TakeRow& take) {
  if (run_->whole() != nullptr) {
    gpumemprof::take_rows(*run_->whole(), take);
    return Done{};
  }
  ProgressLine progress("reading " + file_, terminal_.shows_progress);
  progress.begin();
  Result<std::shared_ptr<const Store>> store = take_rows_in_windows(file_, take);
  if (!store) return store.error();
  row_store_ = std::move(store).value();
  if (row_store_ != nullptr) return Done{};
  return Error{ErrorCode::bad_input,
               "its allocations cannot be listed: the state at its start is "
               "not known",
               file_, "list a part of it: gpumemprof convert --events A:B"};
}

std::map<DeviceIndex, Moment> OpenedRun::moments() const {
  std::map<DeviceIndex, Moment> moments;
  for (const DeviceOverview& device : overview_.devices) {
    const std::uint32_t event = device.asked_when.event;
    const bool is_end = device.asked.kind == AskedMoment::Kind::end;
    moments.emplace(device.device, is_end              ? Moment::end()
                                   : event == kNoEvent ? Moment::start()
                                                       : Moment::after(event));
  }
  return moments;
}

}  // namespace gpumemprof::cli
