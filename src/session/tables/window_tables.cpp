#include "session/tables/window_tables.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <new>
#include <numeric>

#include "session/excerpt/long_file.h"
#include "session/excerpt/passes.h"
#include "session/formats.h"

namespace gpumemprof {
namespace {

std::vector<std::uint32_t> copied(const Column<std::uint32_t>& column) {
  return {column.begin(), column.end()};
}

Error too_little_memory(const std::string& path) {
  return {ErrorCode::environment, "this machine does not have enough memory to read it", path,
          "read it on a machine with more memory"};
}

class TableTaker final : public WindowTaker {
 public:
  // What becomes of what a window leaves live is in `found`.
  TableTaker(const Store& store, const Survey::Result& found, const TabledRun::Show& show)
      : store_(store), found_(found), show_(show) {}

  void take(const KeptRun& run, const LocalView& view, const Window& window,
            const std::vector<PhaseSpan>& spans) override {
    const DeviceRecord& record = view.record();
    TableWindow shown{store_, record, found_.replay, spans, window.first, window.is_last};
    shown.first_event = run.place_of(window.first);
    shown.events = window.end - window.first;
    shown.event_numbers.assign(record.events.size(), kNoEvent);
    for (std::size_t event = 0; event < shown.events; ++event)
      shown.event_numbers[shown.first_event + event] =
          window.first + static_cast<std::uint32_t>(event);
    for (std::size_t row = 0; row < record.allocations.size(); ++row)
      take_row(view, row, window, spans, shown);
    for (std::size_t row = 0; window.is_last && row < record.segments.size(); ++row) {
      shown.segment_births.push_back(view.segment_birth(row));
      shown.segment_deaths.push_back(view.segment_death(row));
    }
    show_(shown);
  }

 private:
  void take_row(const LocalView& view, std::size_t row, const Window& window,
                const std::vector<PhaseSpan>& spans, TableWindow& shown) const {
    const std::uint32_t birth = view.birth(row);
    shown.births.push_back(birth);
    shown.frees.push_back(view.death(row));
    shown.completions.push_back(view.completion(row));
    if (const Fate* fate = view.fate(row); fate != nullptr) {
      if (shown.frees[row] == kNoEvent) shown.frees[row] = fate->free_requested;
      if (shown.completions[row] == kNoEvent) shown.completions[row] = fate->free_completed;
    }
    shown.steps.push_back(step_at(spans, view.record().allocations.alloc_event[row]));
    // What was live at the start belongs to the first window.
    const bool is_of_start = birth == kNoEvent && window.first == 0;
    const bool is_born = birth != kNoEvent && birth >= window.first && birth < window.end;
    if (is_of_start || is_born) shown.rows.push_back(static_cast<std::uint32_t>(row));
  }

  const Store& store_;
  const Survey::Result& found_;
  const TabledRun::Show& show_;
};

}  // namespace

Result<std::unique_ptr<TabledRun>> TabledRun::open_in_windows(const std::string& path,
                                                              const OpenOptions& options) {
  const std::optional<WindowSizes> sizes = window_sizes(path);
  if (!sizes) return std::unique_ptr<TabledRun>();
  const auto passes = std::make_shared<RunPasses>(path, options);
  const auto deliver = [passes](EventSink& sink) { return passes->deliver(sink); };
  try {
    auto run = std::make_unique<TabledRun>();
    run->path_ = path;
    run->windowed_ = std::make_unique<WindowedRun>(path, deliver, *sizes);
    const Result<bool> surveyed = run->windowed_->survey();
    if (!surveyed) return surveyed.error();
    if (!surveyed.value()) run.reset();
    return run;
  } catch (const std::bad_alloc&) {
    return too_little_memory(path);
  }
}

Result<std::unique_ptr<TabledRun>> TabledRun::open(const std::string& path,
                                                   const OpenOptions& options) {
  Result<std::unique_ptr<TabledRun>> windowed = open_in_windows(path, options);
  if (!windowed || windowed.value() != nullptr) return windowed;
  Result<std::shared_ptr<const Recording>> recording = Recording::open(path, options);
  if (!recording) return recording.error();
  return of(std::move(recording).value());
}

std::unique_ptr<TabledRun> TabledRun::of(std::shared_ptr<const Recording> recording) {
  auto run = std::make_unique<TabledRun>();
  run->path_ = recording->path();
  run->whole_ = std::move(recording);
  return run;
}

const Store& TabledRun::store() const {
  return whole_ != nullptr ? whole_->store() : windowed_->store();
}

std::vector<TabledRun::Device> TabledRun::devices() const {
  std::vector<Device> devices;
  if (whole_ == nullptr) {
    for (const DeviceIndex device : windowed_->devices()) {
      const Survey::Result& found = *windowed_->found(device);
      devices.push_back({device, found.events, found.replay, found.extent.lost_events,
                         found.extent.first_time_ns});
    }
    return devices;
  }
  const Store& store = whole_->store();
  for (std::size_t index = 0; index < store.devices().size(); ++index) {
    const DeviceRecord& record = *store.devices()[index];
    devices.push_back({record.device, static_cast<std::uint32_t>(record.events.size()),
                       whole_->replays()[index], record.lost_events,
                       record.events.empty() ? kUnknownTime : record.events.time_ns[0]});
  }
  return devices;
}

Completeness TabledRun::completeness() const {
  if (whole_ != nullptr) return find_completeness(whole_->store());
  std::vector<DeviceExtent> extents;
  for (const DeviceIndex device : windowed_->devices())
    extents.push_back(windowed_->found(device)->extent);
  return find_completeness(windowed_->store(), extents);
}

Status TabledRun::show(const Show& show) {
  try {
    if (whole_ == nullptr) return show_windowed(show);
    show_whole(show);
    return Done{};
  } catch (const std::bad_alloc&) {
    return too_little_memory(path_);
  }
}

void TabledRun::show_whole(const Show& show) const {
  const Store& store = whole_->store();
  for (std::size_t index = 0; index < store.devices().size(); ++index) {
    const DeviceRecord& record = *store.devices()[index];
    const std::vector<PhaseSpan>& spans = whole_->phases()[index];
    TableWindow shown{store, record, whole_->replays()[index], spans, 0, true};
    shown.events = record.events.size();
    shown.event_numbers.resize(record.events.size());
    std::iota(shown.event_numbers.begin(), shown.event_numbers.end(), 0U);
    shown.rows.resize(record.allocations.size());
    std::iota(shown.rows.begin(), shown.rows.end(), 0U);
    shown.births = copied(record.allocations.alloc_event);
    shown.frees = copied(record.allocations.free_requested_event);
    shown.completions = copied(record.allocations.free_completed_event);
    for (const std::uint32_t birth : shown.births) shown.steps.push_back(step_at(spans, birth));
    shown.segment_births = copied(record.segments.birth_event);
    shown.segment_deaths = copied(record.segments.death_event);
    show(shown);
  }
}

Status TabledRun::show_windowed(const Show& show) {
  std::map<DeviceIndex, std::unique_ptr<TableTaker>> takers;
  std::map<DeviceIndex, WindowTaker*> shown;
  for (const DeviceIndex device : windowed_->devices()) {
    takers[device] =
        std::make_unique<TableTaker>(windowed_->store(), *windowed_->found(device), show);
    shown[device] = takers[device].get();
  }
  return windowed_->show_windows(shown);
}

}  // namespace gpumemprof
