#include "session/reported_run.h"

#include <new>

#include "base/process.h"
#include "session/excerpt/excerpt.h"
#include "session/excerpt/indexed_moment.h"
#include "session/excerpt/long_file.h"

namespace gpumemprof {
namespace {

Error out_of_memory(const std::string& path) {
  return {ErrorCode::environment, "this machine does not have enough memory to open it", path,
          "open it on a machine with more memory"};
}

}  // namespace

Result<std::unique_ptr<ReportedRun>> ReportedRun::open(const std::string& path,
                                                       const OpenOptions& options, bool is_passing,
                                                       bool proves_failures) {
  auto run = std::make_unique<ReportedRun>();
  run->path_ = path;
  if (const std::optional<WindowSizes> sizes = window_sizes(path)) {
    ReportedRun* const self = run.get();
    run->passes_ = std::make_unique<RunPasses>(path, options);
    run->windowed_ = std::make_unique<WindowedRun>(
        path, [self](EventSink& sink) { return self->passes_->deliver(sink, self->maker_.get()); },
        *sizes);
    if (!is_passing)
      run->windowed_->let_prove_failures(
          [self](EventSink& sink) { return self->passes_->deliver_again(sink); });
    run->has_index_ = !forced_window() && !is_passing;
    IndexState state = IndexState::missing;
    if (run->has_index_) run->index_ = RunIndex::open(path, state);
    if (run->index_ != nullptr) return run;
    if (state == IndexState::stale)
      run->note_ = index_path(path) + " belongs to another recording or version: it is made again";
    const Result<bool> surveyed = run->survey();
    if (!surveyed) return surveyed.error();
    const bool is_proven_whole = run->has_index_ && run->windowed_->needs_whole_for_proof();
    if (is_proven_whole && !proves_failures) run->has_index_ = false;
    if (surveyed.value() && (!is_proven_whole || !proves_failures)) return run;
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
  Result<Overview> made = make_overview(options);
  if (made && made.value().completeness.is_recording && !made.value().completeness.is_closed) {
    const ProcessFacts& process = store().facts().process();
    made.value().completeness.is_being_written = is_being_written(path_, process.host, process.pid);
  }
  return made;
}

Result<Overview> ReportedRun::make_overview(const OverviewOptions& options) {
  if (whole_) return whole_->overview(options);
  if (options.at.kind == AskedMoment::Kind::step) return at_step(options);
  if (index_ != nullptr) {
    Result<Overview> found = from_index(options);
    // What the checkpoints of a damaged index do not show, the recording does.
    if (found || found.error().code != ErrorCode::bad_input) return found;
  }
  if (!is_surveyed_) {
    const Result<bool> surveyed = survey();
    if (!surveyed) return surveyed.error();
  }
  try {
    // The index answers any question, so it is made whatever is asked.
    const bool is_all = !options.device && options.at.kind == AskedMoment::Kind::peak;
    if (!is_all && has_index_ && index_ == nullptr) {
      Result<Overview> made = read_again({}, {});
      if (!made) return made;
      IndexState state = IndexState::missing;
      index_ = RunIndex::open(path_, state);
      if (index_ != nullptr) {
        is_surveyed_ = false;
        Result<Overview> found = from_index(options);
        if (found || found.error().code != ErrorCode::bad_input) return found;
        const Result<bool> surveyed = survey();
        if (!surveyed) return surveyed.error();
      }
    }
    return read_again(options, {});
  } catch (const std::bad_alloc&) {
    return out_of_memory(path_);
  }
}

// Each device has a moment of its own.
Result<Overview> ReportedRun::at_step(const OverviewOptions& options) {
  // Of the end, because its index is opened then, which answers the rest.
  Result<Overview> made = overview({{AskedMoment::Kind::end}, options.device});
  if (!made) return made;
  for (DeviceOverview& device : made.value().devices) {
    const Result<std::uint32_t> event = peak_of_step(device, options.at.step);
    if (!event) return event.error();
    Result<Overview> moment = overview({{AskedMoment::Kind::event, event.value()}, device.device});
    if (!moment) return moment;
    device = std::move(moment.value().devices.front());
    device.asked.kind = AskedMoment::Kind::step;
    device.asked.step = options.at.step;
  }
  return made;
}

Result<std::uint32_t> ReportedRun::peak_of_step(const DeviceOverview& device,
                                                std::uint32_t step) const {
  const std::vector<StepFigures>& steps = device.sources.steps;
  Result<std::uint32_t> event = gpumemprof::peak_of_step(path_, device.name, steps, step);
  const bool is_left_out =
      std::ranges::any_of(steps, [](const StepFigures& one) { return one.left_out.count > 0; });
  if (event || !is_left_out || step > steps.back().step) return event;
  const Result<std::shared_ptr<const Recording>> part =
      open_excerpt(path_, {AskedPart::Kind::steps, step, step, device.device});
  if (!part) return part.error();
  if (part.value() == nullptr) return event;
  const Result<Overview> found = part.value()->overview({{}, device.device});
  if (!found) return found.error();
  return gpumemprof::peak_of_step(path_, device.name, found.value().devices.front().sources.steps,
                                  step);
}

Result<LeaksReport> ReportedRun::leaks(const LeaksOptions& options) {
  if (whole_) return whole_->leaks(options);
  Result<Overview> made = [&]() -> Result<Overview> {
    if (options.is_plain()) return overview({{}, options.device});
    if (!is_surveyed_) {
      const Result<bool> surveyed = survey();
      if (!surveyed) return surveyed.error();
    }
    try {
      return read_again({{}, options.device}, options);
    } catch (const std::bad_alloc&) {
      return out_of_memory(path_);
    }
  }();
  if (!made) return made.error();
  LeaksReport report;
  report.path = path_;
  report.completeness = std::move(made.value().completeness);
  for (DeviceOverview& device : made.value().devices) {
    if (!device.leaks)
      return Error{ErrorCode::bad_input,
                   "its work on " + device.name + " repeats too often to compare each time", path_,
                   "mark longer steps with gpumemprof.step(), or ask about a part: "
                   "gpumemprof convert --events A:B"};
    report.devices.push_back(std::move(*device.leaks));
  }
  return report;
}

// The second pass, which also makes the index if all of it is asked for.
Result<Overview> ReportedRun::read_again(const OverviewOptions& options,
                                         const LeaksOptions& leaks) {
  const bool is_all =
      !options.device && options.at.kind == AskedMoment::Kind::peak && leaks.is_plain();
  const auto note_failure = [&](const Error& error) {
    note_ = "no index was written beside it, so the next report takes as long: " + error.sentence();
  };
  if (is_all && has_index_ && index_ == nullptr) {
    IndexOptions index;
    index.identity = passes_->identity();
    Result<std::unique_ptr<IndexMaker>> maker = IndexMaker::create(path_, index);
    if (!maker) note_failure(maker.error());
    if (maker) maker_ = std::move(maker).value();
  }
  Result<Overview> made = windowed_->overview(options, maker_.get(), leaks);
  if (made && maker_ != nullptr) {
    const Status written = maker_->finish(windowed_->store(), made.value(), windowed_->at_end());
    if (!written) note_failure(written.error());
  }
  maker_.reset();
  return made;
}

Result<Overview> ReportedRun::from_index(const OverviewOptions& options) const {
  Overview overview = index_->at_peak();
  if (options.at.kind == AskedMoment::Kind::end)
    overview = overview_at_end(std::move(overview), index_->at_end());
  const bool is_event = options.at.kind == AskedMoment::Kind::event;
  if (!options.device) {
    if (is_event) return at_event(std::move(overview), options.at.event);
    return overview;
  }
  std::string known;
  for (const DeviceOverview& device : overview.devices)
    known += (known.empty() ? "" : ", ") + device.name;
  std::erase_if(overview.devices,
                [&](const DeviceOverview& device) { return device.device != *options.device; });
  if (overview.devices.empty()) return no_such_device(path_, *options.device, known);
  if (is_event) return at_event(std::move(overview), options.at.event);
  return overview;
}

Result<Overview> ReportedRun::at_event(Overview overview, std::uint32_t event) const {
  for (DeviceOverview& device : overview.devices) {
    if (event >= device.events) return no_such_event(path_, device.name, event, device.events);
  }
  for (DeviceOverview& device : overview.devices) {
    Result<DeviceOverview> found = look_at_event(*index_, device, event);
    if (!found) return found.error();
    device = std::move(found).value();
  }
  return overview;
}

const Store& ReportedRun::store() const {
  if (whole_) return whole_->store();
  return is_surveyed_ || index_ == nullptr ? windowed_->store() : index_->store();
}

}  // namespace gpumemprof
