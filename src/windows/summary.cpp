#include "windows/summary.h"

#include <algorithm>
#include <unordered_map>

#include "analysis/overview/when.h"

namespace gpumemprof {
namespace {

// What an allocation is for follows from the phases that it lives through. So many are known to
// every window, of the run's beginning and of what comes after the window: some steps of most
// programs, and all of one that goes forward and backward hundreds of times for a step.
constexpr std::size_t kKnownSpans = 1024;

// Whether the moment after this event is inside; kNoEvent: before the first.
bool is_inside(std::uint32_t event, const Window& window) {
  if (event == kNoEvent) return window.first == 0;
  return event >= window.first && event < window.end;
}

Moment moment_after(const KeptRun& run, std::uint32_t event) {
  return event == kNoEvent ? Moment::start() : Moment::after(run.place_of(event));
}

// As a timeline shows it.
OverlayOom failure_at(const KeptRun& run, const DeviceRecord& record, std::uint32_t event) {
  const std::uint32_t place = run.place_of(event);
  const Moment moment = moment_after(run, event);
  OverlayOom failure;
  failure.position = position_after(event);
  failure.time_ns = record.events.time_ns[place];
  failure.wanted_bytes = record.events.size_bytes[place];
  failure.stack = record.events.stack[place];
  failure.allocated_bytes = sources_at(record, record.labels, moment).allocated();
  const SegmentColumns& segments = record.segments;
  for (std::size_t row = 0; row < segments.size(); ++row) {
    if (segments.is_reserved_at(row, moment)) failure.reserved_bytes += segments.size_bytes[row];
  }
  return failure;
}

}  // namespace

Summary::Summary(const Store& store, Survey::Result& survey, const AskedMoment& asked,
                 IndexTaker* taker)
    : store_(store),
      survey_(survey),
      fates_(survey.fates),
      sweep_(survey.events, survey.has_labels, SourcesOptions()),
      taker_(taker),
      pyramid_(survey.events) {
  if (taker_ != nullptr) sweep_.fill(pyramid_);
  overview_.device = survey.extent.device;
  overview_.name = store.device_name(survey.extent.device);
  overview_.events = survey.events;
  overview_.replay = survey.replay;
  overview_.asked = asked;
  overview_.growth = survey.growth;
  overview_.card_usage = survey.card_usage;
  overview_.sources.device = survey.extent.device;
  overview_.sources.has_labels = survey.has_labels;
  overview_.sources.has_stacks = survey.has_stacks;
  overview_.sources.kind = survey.kind;
  overview_.sources.peak_event = survey.replay.peak_event;
  overview_.sources.spans = std::move(survey.spans);
  choose_kept_events();
}

void Summary::choose_kept_events() {
  const std::vector<PhaseSpan>& spans = overview_.sources.spans;
  for (std::size_t index = 0; index < std::min(spans.size(), kKnownSpans); ++index)
    kept_.push_back(spans[index].first_event);
  if (survey_.first_backward != kNoEvent) kept_.push_back(survey_.first_backward);
}

// Where phases begin: the next ones, and the last that does work, which ends where another begins.
std::vector<std::uint32_t> Summary::landmarks_from(std::uint32_t event) const {
  const std::vector<PhaseSpan>& spans = overview_.sources.spans;
  std::vector<std::uint32_t> found;
  auto next = std::ranges::lower_bound(spans, event, {}, &PhaseSpan::first_event);
  for (; next != spans.end() && found.size() < kKnownSpans; ++next)
    found.push_back(next->first_event);
  auto last = spans.end();
  while (last != next && std::prev(last)->phase == Phase::other) --last;
  if (last == next) return found;
  found.push_back(std::prev(last)->first_event);
  if (last != spans.end()) found.push_back(last->first_event);
  return found;
}

// The phases of the run, as far as its events are kept.
std::vector<PhaseSpan> Summary::spans_of(const KeptRun& run, std::size_t events) const {
  const std::vector<PhaseSpan>& spans = overview_.sources.spans;
  std::vector<PhaseSpan> found;
  std::size_t place = 0;
  while (place < events) {
    const auto after =
        std::ranges::upper_bound(spans, run.number_at(place), {}, &PhaseSpan::first_event);
    if (after == spans.begin()) {
      place = after == spans.end() ? events : run.place_of(after->first_event);
      continue;
    }
    PhaseSpan span = *std::prev(after);
    span.first_event = static_cast<std::uint32_t>(place);
    if (found.empty() || found.back().phase != span.phase || found.back().step != span.step)
      found.push_back(span);
    place = after == spans.end() ? events : run.place_of(after->first_event);
  }
  return found;
}

std::vector<std::uint32_t> Summary::grown_rows(const KeptRun& run, const LocalView& view) {
  std::vector<std::uint32_t> rows;
  if (!survey_.growth.is_growing) return rows;
  const DeviceRecord& record = view.record();
  FloorCursor cursor(survey_.floors);
  for (std::uint32_t row = 0; row < record.allocations.size(); ++row) {
    const std::uint32_t death = record.allocations.free_requested_event[row];
    const Lifetime life{view.birth(row), death == kNoEvent ? kNoEvent : run.number_at(death)};
    if (survey_.growth_sum->is_grown(record, row, life, survey_.floors, cursor))
      rows.push_back(row);
  }
  return rows;
}

// What the labels of the run say about these rows, beyond those that are kept.
KnownLabels Summary::known_labels(const LocalView& view) const {
  KnownLabels known{{}, &survey_.labelled_places};
  if (survey_.late_labels.size() == 0) return known;
  const auto rows = static_cast<std::uint32_t>(view.record().allocations.size());
  for (std::uint32_t row = 0; row < rows; ++row) {
    const std::uint64_t key =
        view.birth(row) == kNoEvent ? KeptRun::start_key(row) : view.birth(row);
    const LateLabel* late = survey_.late_labels.find(key);
    if (late != nullptr) known.late.push_back({row, *late});
  }
  return known;
}

// What is older than the window keeps the source it was given.
void Summary::label(const KeptRun& run, LocalView& view, const std::vector<PhaseSpan>& spans,
                    const Window& window) {
  DeviceRecord& record = view.record();
  const AllocationLabels before = std::move(record.labels);
  const KnownLabels known = known_labels(view);
  AllocationLabels labels = label_allocations(
      store_, record, spans,
      {survey_.kind, grown_rows(run, view), survey_.has_labels ? &known : nullptr});
  labels.has_recorded = survey_.has_labels;
  for (std::size_t row = 0; row < before.source.size(); ++row) {
    const std::uint32_t birth = view.birth(row);
    const bool is_older = birth == kNoEvent ? window.first > 0 : birth < window.first;
    if (!is_older) continue;
    labels.source[row] = before.source[row];
    labels.flags[row] = before.flags[row];
    if (before.name.empty()) continue;
    if (labels.name.empty()) labels.name.resize(labels.source.size(), StringId());
    labels.name[row] = before.name[row];
  }
  record.labels = std::move(labels);
}

void Summary::visit(KeptRun& run, const Window& window) {
  LocalView view(run, &fates_, landmarks_from(run.events()));
  DeviceRecord& record = view.record();
  const std::vector<PhaseSpan> spans = spans_of(run, record.events.size());
  label(run, view, spans, window);
  if (window_taker_ != nullptr) window_taker_->take(run, view, window, spans);
  if (leaks_ != nullptr) leaks_->take(run, view, window, spans);
  if (window.first == 0) sweep_.start(record, record.labels, overview_.sources);
  const std::size_t begin = run.place_of(window.first);
  sweep_.pass({record, record.labels, begin, begin + (window.end - window.first), window.first},
              overview_.sources);
  look_at_moments(run, record, window);
  look_at_ooms(run, record, spans, window);
  if (taker_ != nullptr) give_to_index(run, view, window);
  // As many as a report shows.
  constexpr std::size_t kStepsShown = 1000;
  sweep_.fold(kStepsShown, overview_.sources);
  if (!window.is_last) return;
  sweep_.finish(overview_.sources);
  for (SourceFigure& figure : overview_.sources.figures) {
    if (figure.bytes_at_peak == 0) figure.provenance = figure.max_provenance;
  }
  SourceFigure& rounding = overview_.sources.rounding;
  rounding.provenance = rounding.max_provenance = Provenance::measured;
  place_peak(overview_.sources);
  if (survey_.events > 0 && survey_.extent.last_time_ns != kUnknownTime &&
      survey_.extent.first_time_ns != kUnknownTime)
    overview_.duration_ns = survey_.extent.last_time_ns - survey_.extent.first_time_ns;
}

void Summary::look_for_leaks() {
  const Repetitions& repetitions = survey_.repetitions;
  if (repetitions.are_steps_of_run || repetitions.count == 0) {
    leaks_ = std::make_unique<LeakSum>(store_, survey_, survey_.floors);
  } else if (survey_.repetition_floors) {
    leaks_ = std::make_unique<LeakSum>(store_, survey_, *survey_.repetition_floors);
  }
}

void Summary::judge_leaks(const DeviceRecord& record, const LeaksOptions& options) {
  if (leaks_ == nullptr) return;
  overview_.leaks =
      gpumemprof::judge_leaks(store_, survey_.replay, leaks_->finish(record), options);
  leaks_.reset();
  for (OomReport& oom : overview_.ooms) blame_leaks(oom, *overview_.leaks, survey_.events);
}

std::vector<PhaseSpan> Summary::spans_between(std::uint32_t first, std::uint32_t end) const {
  const std::vector<PhaseSpan>& spans = overview_.sources.spans;
  auto next = std::ranges::upper_bound(spans, first, {}, &PhaseSpan::first_event);
  std::vector<PhaseSpan> found;
  if (next != spans.begin() && first < end) {
    found.push_back(*std::prev(next));
    found.back().first_event = first;
  }
  for (; next != spans.end() && next->first_event < end; ++next) found.push_back(*next);
  return found;
}

void Summary::give_to_index(const KeptRun& run, const LocalView& view, const Window& window) {
  const std::size_t begin = run.place_of(window.first);
  pyramid_.add_part(view.record(), begin, begin + (window.end - window.first), window.first);
  taker_->add_buckets(overview_.device, pyramid_.take(window.is_last));
  while (!expected_.empty() && expected_.front().event <= window.end) {
    DeviceCheckpoint checkpoint = checkpoint_before(run, view, expected_.front().event);
    checkpoint.number = expected_.front().number;
    checkpoint.spans = spans_between(last_checkpoint_, checkpoint.event);
    last_checkpoint_ = checkpoint.event;
    taker_->add_checkpoint(checkpoint);
    expected_.pop_front();
  }
}

When Summary::when(const KeptRun& run, std::uint32_t event) const {
  if (event == kNoEvent) return {};
  return when_at(store_, overview_.device, overview_.sources.spans, event,
                 run.record().events.time_ns[run.place_of(event)], survey_.extent.first_time_ns);
}

void Summary::look_at_moments(const KeptRun& run, const DeviceRecord& record,
                              const Window& window) {
  const std::uint32_t peak = survey_.replay.peak_event;
  if (is_inside(peak, window)) {
    overview_.peak_when = when(run, peak);
    find_sources_at_peak(store_, record, record.labels, moment_after(run, peak), overview_.sources);
  }
  std::optional<Moment> asked;
  switch (overview_.asked.kind) {
    case AskedMoment::Kind::peak:
      if (is_inside(peak, window)) asked = moment_after(run, peak);
      if (asked) overview_.asked_when = overview_.peak_when;
      break;
    case AskedMoment::Kind::end:
      if (window.is_last) asked = Moment::end();
      break;
    case AskedMoment::Kind::event:
    case AskedMoment::Kind::step:
      if (!is_inside(overview_.asked.event, window)) break;
      asked = moment_after(run, overview_.asked.event);
      overview_.asked_when = when(run, overview_.asked.event);
      break;
  }
  if (asked) look(run, record, *asked, overview_);
  if (window.is_last) look(run, record, Moment::end(), at_end_);
  if (!overview_.card_usage) return;
  const std::uint32_t sampled = overview_.card_usage->before_event;
  const std::uint32_t before = sampled == 0 ? kNoEvent : sampled - 1;
  if (is_inside(before, window))
    look_into_pool(record, moment_after(run, before), *overview_.card_usage);
}

void Summary::look(const KeptRun& run, const DeviceRecord& record, Moment moment,
                   DeviceOverview& into) {
  look_at_moment(store_, record, moment, into);
  for (PinnedSegment& pinned : into.pins.segments) {
    if (pinned.pin_event != kNoEvent) pinned.pin_event = run.number_at(pinned.pin_event);
  }
  join_tags(into);
}

// What is live under a tag is of the moment, the rest of the whole run.
void Summary::join_tags(DeviceOverview& overview) const {
  std::unordered_map<std::uint32_t, TagFigures> live;
  for (const TagFigures& figures : overview.tags.tags) live.emplace(figures.tag.index, figures);
  std::vector<TagFigures> tags = survey_.tags;
  for (TagFigures& figures : tags) {
    const auto found = live.find(figures.tag.index);
    if (found == live.end()) continue;
    figures.bytes = found->second.bytes;
    figures.blocks = found->second.blocks;
  }
  std::ranges::stable_sort(tags, std::ranges::greater(), &TagFigures::bytes_max);
  overview.tags.tags = std::move(tags);
}

std::vector<DeviceSample> Summary::samples_of(const KeptRun& run) const {
  std::vector<DeviceSample> samples = survey_.samples;
  for (DeviceSample& sample : samples) sample.before_event = run.place_of(sample.before_event);
  return samples;
}

void Summary::look_at_ooms(const KeptRun& run, const DeviceRecord& record,
                           const std::vector<PhaseSpan>& spans, const Window& window) {
  for (std::size_t index = 0; index < survey_.ooms.size(); ++index) {
    const std::uint32_t event = survey_.ooms[index];
    if (!is_inside(event, window)) continue;
    OomReport oom =
        oom_in_window(store_, record, survey_.replay, samples_of(run), run.place_of(event),
                      survey_.before_ooms[index], {whole_run_, event});
    oom.event = event;
    oom.is_need_known = is_need_known(store_, record, spans, survey_.kind);
    overview_.oom_whens.push_back(when(run, event));
    blame_growth(oom, overview_.growth, overview_.oom_whens.back().step);
    overview_.ooms.push_back(std::move(oom));
    if (taker_ != nullptr) taker_->add_failure(overview_.device, failure_at(run, record, event));
  }
}

}  // namespace gpumemprof
