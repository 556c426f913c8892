#include "session/long_recording.h"

#include "session/excerpt/excerpt.h"

namespace gpumemprof {

Result<std::shared_ptr<LongRecording>> LongRecording::open(const std::string& path,
                                                           const OpenOptions& options) {
  if (!is_long_recording(path)) return std::shared_ptr<LongRecording>();
  Result<std::unique_ptr<ReportedRun>> run = ReportedRun::open(path, options);
  if (!run) return run.error();
  if (run.value()->whole() != nullptr) return std::shared_ptr<LongRecording>();
  const auto recording = std::make_shared<LongRecording>();
  recording->path_ = path;
  recording->options_ = options;
  recording->run_ = std::move(run).value();
  const Result<Overview> overview = recording->run_->overview();
  if (!overview) return overview.error();
  recording->completeness_ = overview->completeness;
  recording->events_ = overview->events;
  for (const DeviceOverview& device : overview->devices)
    recording->device_names_.push_back(device.name);
  return recording;
}

Result<Overview> LongRecording::overview(const OverviewOptions& options) {
  const std::scoped_lock lock(reading_);
  return run_->overview(options);
}

Result<LeaksReport> LongRecording::leaks(const LeaksOptions& options) {
  const std::scoped_lock lock(reading_);
  return run_->leaks(options);
}

Result<std::shared_ptr<const Recording>> LongRecording::around_peak() {
  const std::scoped_lock lock(reading_);
  if (around_peak_ != nullptr) return around_peak_;
  Result<std::shared_ptr<const Recording>> part = open_excerpt(path_, AskedPart(), options_);
  if (part && part.value() == nullptr)
    return Error{ErrorCode::bad_input, "no part of it can be opened: its start is not known", path_,
                 "record it again"};
  if (part) around_peak_ = part.value();
  return part;
}

}  // namespace gpumemprof
