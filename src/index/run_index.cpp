#include "index/run_index.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "index/excerpt_plan.h"
#include "index/index_file.h"

namespace gpumemprof {

Overview overview_at_end(Overview at_peak, Overview at_end) {
  for (std::size_t index = 0; index < at_peak.devices.size(); ++index) {
    DeviceOverview& device = at_peak.devices[index];
    DeviceOverview& end = at_end.devices[index];
    device.asked = {AskedMoment::Kind::end, 0};
    device.asked_when = When();
    device.totals = end.totals;
    device.live = std::move(end.live);
    device.live_lines = std::move(end.live_lines);
    device.memory = std::move(end.memory);
    device.pins = std::move(end.pins);
    device.tags = std::move(end.tags);
    device.asked_sources = end.asked_sources;
  }
  return at_peak;
}

// A folder may be named with a slash at its end, or as `.`.
std::string index_path(const std::string& recording) {
  std::error_code failed;
  std::filesystem::path path(recording);
  if (!path.has_filename() || path.filename() == "." || path.filename() == "..") {
    const std::filesystem::path whole = std::filesystem::canonical(path, failed);
    if (!failed && whole.has_filename()) path = whole;
  }
  return path.string() + ".index";
}

RunIndex::RunIndex(std::string recording, std::unique_ptr<IndexFile> file)
    : recording_(std::move(recording)),
      file_(std::move(file)),
      checkpoints_(std::make_unique<CheckpointReader>(*file_, recording_)) {}
RunIndex::~RunIndex() = default;

std::unique_ptr<RunIndex> RunIndex::open(const std::string& recording, IndexState& state) {
  state = IndexState::missing;
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(index_path(recording), ignored)) return nullptr;
  state = IndexState::stale;
  const Result<Identity> identity = identity_of(recording);
  if (!identity) return nullptr;
  std::unique_ptr<IndexFile> file = IndexFile::open(index_path(recording), identity.value());
  if (file == nullptr) return nullptr;
  state = IndexState::good;
  std::unique_ptr<RunIndex> index(new RunIndex(recording, std::move(file)));
  index->at_peak_ = index->file_->overviews().at_peak;
  index->at_peak_.path = recording;
  return index;
}

const Store& RunIndex::store() const { return file_->store(); }
const Overview& RunIndex::at_end() const { return file_->overviews().at_end; }

std::uint64_t RunIndex::recording_bytes() const { return file_->directory().identity.size_bytes; }

std::vector<DeviceIndex> RunIndex::devices() const {
  std::vector<DeviceIndex> found;
  for (const IndexedDevice& device : file_->directory().devices) found.push_back(device.device);
  return found;
}

Result<Pyramid> RunIndex::pyramid(DeviceIndex index) const {
  const IndexedDevice* const device = file_->device(index);
  if (device == nullptr) return no_such_device(recording_, index, known_devices());
  Pyramid pyramid;
  pyramid.events = device->events;
  pyramid.events_per_bucket = pyramid_bucket_events(device->events);
  for (const PartPlace& place : device->buckets) {
    const auto part = file_->read<std::vector<PyramidBucket>>(place);
    if (!part || pyramid.buckets.size() + part->size() > device->bucket_count)
      return damaged_index(recording_);
    pyramid.buckets.insert(pyramid.buckets.end(), part->begin(), part->end());
  }
  if (pyramid.buckets.size() != device->bucket_count) return damaged_index(recording_);
  for (std::size_t row = 0; row < pyramid.buckets.size(); ++row) {
    const PyramidBucket& bucket = pyramid.buckets[row];
    if (bucket.max_event / pyramid.events_per_bucket != row || bucket.max_event >= pyramid.events ||
        bucket.min_allocated_bytes > bucket.max_allocated_bytes ||
        bucket.min_reserved_bytes > bucket.max_reserved_bytes)
      return damaged_index(recording_);
  }
  return pyramid;
}

const std::vector<std::uint32_t>& RunIndex::checkpoints(DeviceIndex index) const {
  static const std::vector<std::uint32_t> kNone;
  const IndexedDevice* const device = file_->device(index);
  return device == nullptr ? kNone : device->checkpoints;
}

std::string RunIndex::known_devices() const {
  std::string known;
  for (const DeviceOverview& device : at_peak_.devices)
    known += (known.empty() ? "" : ", ") + device.name;
  return known;
}

Result<DeviceCheckpoint> RunIndex::checkpoint(DeviceIndex index, std::size_t number) const {
  const IndexedDevice* const device = file_->device(index);
  if (device == nullptr || number >= device->states.size()) return damaged_index(recording_);
  Result<DeviceCheckpoint> state = checkpoints_->state(*device, number);
  if (!state) return state;
  Result<std::vector<PhaseSpan>> spans = checkpoints_->spans_before(*device, number);
  if (!spans) return spans.error();
  state.value().spans = std::move(spans).value();
  return state;
}

Result<std::vector<OverlayOom>> RunIndex::failures(DeviceIndex index) const {
  const IndexedDevice* const device = file_->device(index);
  if (device == nullptr) return no_such_device(recording_, index, known_devices());
  std::optional<std::vector<OverlayOom>> found =
      file_->read<std::vector<OverlayOom>>(device->failures);
  if (!found || std::ranges::any_of(*found, [&](const OverlayOom& failure) {
        return failure.position == 0 || failure.position > device->events;
      }))
    return damaged_index(recording_);
  return std::move(*found);
}

Result<std::vector<PhaseSpan>> RunIndex::spans(DeviceIndex index) const {
  const IndexedDevice* const device = file_->device(index);
  if (device == nullptr) return no_such_device(recording_, index, known_devices());
  std::vector<PhaseSpan> spans;
  for (std::size_t number = 0; number < device->spans.size(); ++number) {
    const Result<std::vector<PhaseSpan>> before = checkpoints_->spans_before(*device, number);
    if (!before) return before.error();
    for (const PhaseSpan& span : before.value()) {
      if (span.first_event >= device->events ||
          (!spans.empty() && spans.back().first_event >= span.first_event))
        return damaged_index(recording_);
      // Every checkpoint begins with the phase that it lies in.
      if (spans.empty() || spans.back().phase != span.phase || spans.back().step != span.step)
        spans.push_back(span);
    }
  }
  return spans;
}

Result<std::unique_ptr<ExcerptSource>> RunIndex::excerpt(DeviceIndex index, std::uint32_t from,
                                                         std::uint32_t to) const {
  const IndexedDevice* const device = file_->device(index);
  if (device == nullptr) return no_such_device(recording_, index, known_devices());
  if (from > to || to > device->events)
    return no_such_event(recording_, store().device_name(index), std::max(from, to),
                         device->events);
  const std::vector<std::uint32_t>& events = device->checkpoints;
  auto plan = std::make_unique<ExcerptSource::Plan>();
  plan->file = file_.get();
  plan->checkpoints = checkpoints_.get();
  plan->recording = recording_;
  plan->device = device;
  // Checkpoints at the same event: the last of them begins where the recording is nearest.
  plan->first =
      static_cast<std::size_t>(std::prev(std::ranges::upper_bound(events, from)) - events.begin());
  plan->first = std::min(plan->first, events.size() - 2);
  plan->end = std::max<std::size_t>(
      plan->first + 1,
      static_cast<std::size_t>(std::ranges::lower_bound(events, to) - events.begin()));
  const auto overview = std::ranges::find(at_peak_.devices, index, &DeviceOverview::device);
  if (overview != at_peak_.devices.end()) plan->kind = overview->sources.kind;
  return std::unique_ptr<ExcerptSource>(new ExcerptSource(std::move(plan)));
}

}  // namespace gpumemprof
