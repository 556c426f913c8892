#include "windows/survey.h"

#include <algorithm>

#include "analysis/leaks/decide.h"
#include "analysis/moment/pool_state.h"
#include "analysis/overview/overview.h"
#include "analysis/phases/run_kind.h"
#include "analysis/sources/measured.h"
#include "replay/left_out.h"

namespace gpumemprof {

Survey::Survey(DeviceIndex device, const Store& store, SurveyedLabelSets& sets)
    : store_(store), labels_(store, sets), outside_code_(store) {
  result_.extent.device = device;
  result_.growth_sum = std::make_unique<GrowthSum>(store);
}

// The rows that die before a floor which may still move count at that floor.
std::uint32_t Survey::needed_from() const {
  const std::vector<StepFloor>& steps = floors_.steps();
  if (steps.empty()) return kNoEvent;
  return floors_done_ == 0 ? steps.front().first_event : steps[floors_done_ - 1].event + 1;
}

void Survey::visit(KeptRun& run, const Window& window) {
  const LocalView view(run);
  const DeviceRecord& record = view.record();
  has_marked_steps_ = has_marked_steps_ || !marked_step_begins(record).empty();
  result_.has_labels = result_.has_labels || !record.labellings.empty();
  if (window.first == 0 && store_.facts().has_pool())
    result_.start = listed_state(record, pool_state_at(record, Moment::start()));
  const std::vector<PhaseSpan> spans = find_spans(store_, record);
  take_kind(record, spans);
  take_spans(run, spans, window);
  labels_.visit(run, view, window, result_.spans);
  follow_events(run, window);
  follow_growth(view, floors_.steps(), floors_.first_open());
  follow_tags(view, window);
  follow_repetitions(run, view, window);
  note_fates(run, view);
  if (window.is_last) finish(run, view);
}

void Survey::take_kind(const DeviceRecord& record, const std::vector<PhaseSpan>& local) {
  if (is_kind_settled_) return;
  const RunKind kind = find_run_kind(store_, record, local);
  if (kind != RunKind::unknown || result_.kind == RunKind::unknown) result_.kind = kind;
  // Before the first error, memory held says whether a backward was still to come.
  is_kind_settled_ = kind == RunKind::training;
}

// A step that begins in the window is one more, whatever number it has among what is kept.
void Survey::take_spans(const KeptRun& run, const std::vector<PhaseSpan>& local,
                        const Window& window) {
  std::vector<PhaseSpan>& spans = result_.spans;
  const std::uint32_t begin = run.place_of(window.first);
  const std::uint32_t end = begin + (window.end - window.first);
  std::uint32_t step = spans.empty() ? 0 : spans.back().step;
  std::uint32_t local_step = 0;  // of the event before
  for (std::size_t index = 0; index < local.size() && local[index].first_event < end; ++index) {
    const PhaseSpan& span = local[index];
    const std::uint32_t span_end =
        index + 1 < local.size() ? local[index + 1].first_event : kNoEvent;
    if (span.first_event < begin && span_end <= begin) {
      local_step = span.step;
      continue;
    }
    if (span.first_event >= begin) {
      step += span.step - local_step;
    }
    local_step = span.step;
    const std::uint32_t first = window.first + (std::max(span.first_event, begin) - begin);
    if (!spans.empty() && spans.back().phase == span.phase && spans.back().step == step) continue;
    spans.push_back({first, span.phase, step});
    if (span.phase == Phase::backward)
      result_.first_backward = std::min(result_.first_backward, first);
  }
}

void Survey::follow_events(const KeptRun& run, const Window& window) {
  const EventColumns& events = run.record().events;
  const std::uint32_t begin = run.place_of(window.first);
  if (window.end > window.first) {
    if (window.first == 0) result_.extent.first_time_ns = events.time_ns[begin];
    result_.extent.last_time_ns = events.time_ns[begin + (window.end - window.first) - 1];
  }
  const std::vector<LostEvents>& lost_events = run.record().lost_events;
  auto gap = lost_events.begin();
  for (std::uint32_t number = window.first; number < window.end; ++number) {
    const std::uint32_t place = begin + (number - window.first);
    const Action action = events.action[place];
    floors_.note(number, action, events.size_bytes[place], result_.spans);
    while (gap != lost_events.end() && (!gap->is_of_chapters || gap->end_event <= number)) ++gap;
    if (gap != lost_events.end() && gap->before_event <= number) {
      ++result_.bridging[static_cast<std::size_t>(action)];
    } else {
      result_.extent.rows.add(action);
    }
    if (action == Action::alloc) {
      ++requests_.count;
      requests_.largest_bytes = std::max(requests_.largest_bytes, events.size_bytes[place]);
    } else if (action == Action::oom && result_.ooms.size() < kOomsShown) {
      result_.ooms.push_back(number);
      result_.before_ooms.push_back(requests_);
    }
  }
  std::uint32_t from = window.first;
  for (; next_sample_ < samples_.size(); ++next_sample_) {
    PlacedSample& placed = samples_[next_sample_];
    if (placed.sample.before_event == kNoEvent) {
      // One from before the device was recorded has only the time.
      const std::int64_t* const first = events.time_ns.begin() + begin;
      const std::int64_t* const last = first + (window.end - window.first);
      const std::int64_t* const at = std::upper_bound(first, last, placed.sample.time_ns);
      if (at == last && !window.is_last) break;
      placed.position = window.first + static_cast<std::uint32_t>(at - first);
    }
    if (placed.position > window.end && !window.is_last) break;
    placed.position = std::min(placed.position, window.end);
    if (placed.position > from)
      outside_code_.note(events, begin + (from - window.first),
                         begin + (placed.position - window.first), seen_);
    from = std::max(from, placed.position);
    placed.seen = seen_;
    seen_ = SeenCode();
  }
  outside_code_.note(events, begin + (from - window.first), begin + (window.end - window.first),
                     seen_);
}

// Floors [floors_done_, end) change no more.
void Survey::follow_growth(const LocalView& view, const std::vector<StepFloor>& floors,
                           std::size_t end) {
  if (end <= floors_done_) return;
  const DeviceRecord& record = view.record();
  const std::uint32_t first_step = floors.front().first_event;
  const std::uint32_t done_until = floors_done_ == 0 ? 0 : floors[floors_done_ - 1].event;
  const auto behind = [&](std::uint32_t event) {
    const auto last = floors.begin() + static_cast<std::ptrdiff_t>(end);
    return static_cast<std::size_t>(
        std::partition_point(floors.begin(), last,
                             [&](const StepFloor& floor) { return floor.event < event; }) -
        floors.begin());
  };
  const auto is_new = [&](std::size_t floor) { return floor >= floors_done_ && floor < end; };
  std::size_t cursor = 0;  // the first floor that rows born now can see
  for (std::size_t row = 0; row < record.allocations.size(); ++row) {
    const std::uint32_t birth = view.birth(row);
    const std::uint32_t death = view.death(row);
    if (birth == kNoEvent || birth < first_step) continue;
    if (floors_done_ > 0 && death <= done_until) continue;
    if (cursor < end && floors[cursor].event < birth) cursor = behind(birth);
    if (cursor >= end || death <= floors[cursor].event) continue;
    const std::size_t first = cursor;
    const std::size_t last = behind(death);
    const std::uint64_t bytes = record.allocations.requested_bytes[row];
    const bool is_kept = last > first + 1;
    if (!is_new(first) && !(is_kept && is_new(first + 1)) && !is_new(last)) continue;
    SiteSeries& series = result_.growth_sum->series(record, row);
    if (is_new(first)) series.rise(first, bytes);
    if (is_kept && is_new(first + 1)) series.keep(first, bytes);
    if (is_new(last)) series.fall(last, bytes);
  }
  floors_done_ = end;
  result_.growth_sum->settle(end - 1);
}

void Survey::follow_tags(const LocalView& view, const Window& window) {
  const DeviceRecord& record = view.record();
  if (record.events.user_metadata.empty()) return;
  struct Change {
    std::uint32_t event = 0;
    std::size_t tag = 0;
    std::int64_t bytes = 0;
  };
  std::vector<Change> changes;
  const auto is_inside = [&](std::uint32_t event) {
    return event != kNoEvent && event >= window.first && event < window.end;
  };
  for (std::size_t row = 0; row < record.allocations.size(); ++row) {
    const StringId tag = tag_of(record, row);
    const bool is_born = is_inside(view.birth(row));
    if (tag.is_none() || (!is_born && !is_inside(view.death(row)))) continue;
    const auto [place, is_new] = tag_places_.try_emplace(tag.index, result_.tags.size());
    if (is_new) {
      result_.tags.push_back({tag});
      tag_bytes_.push_back(0);
    }
    const auto bytes = static_cast<std::int64_t>(record.allocations.size_bytes[row]);
    if (is_born) {
      ++result_.tags[place->second].allocations;
      changes.push_back({view.birth(row), place->second, bytes});
    }
    if (is_inside(view.death(row))) changes.push_back({view.death(row), place->second, -bytes});
  }
  std::ranges::sort(changes, {}, &Change::event);
  for (const Change& change : changes) {
    tag_bytes_[change.tag] += change.bytes;
    const auto now = static_cast<std::uint64_t>(std::max<std::int64_t>(tag_bytes_[change.tag], 0));
    result_.tags[change.tag].bytes_max = std::max(result_.tags[change.tag].bytes_max, now);
  }
}

// What else repeats matters only where there are no steps of training.
void Survey::follow_repetitions(const KeptRun& run, const LocalView& view, const Window& window) {
  const std::uint32_t steps = result_.spans.empty() ? 0 : result_.spans.back().step;
  const bool are_steps_certain = is_kind_settled_ || has_marked_steps_;
  if (result_.first_backward != kNoEvent ||
      (are_steps_certain && steps >= DecideOptions().fewest_floors))
    return;
  const DeviceRecord& record = view.record();
  std::vector<RepetitionCandidates::Free> frees;
  for (std::size_t row = 0; row < record.allocations.size(); ++row) {
    const std::uint32_t death = view.death(row);
    if (view.birth(row) != kNoEvent && death >= window.first && death < window.end)
      frees.push_back({death, view.birth(row)});
  }
  std::ranges::sort(frees, {}, &RepetitionCandidates::Free::death);
  const std::size_t begin = run.place_of(window.first);
  repetitions_.follow(store_, record.events, begin, begin + (window.end - window.first),
                      window.first, frees);
}

// Of what was live when the last window was shown, what died since.
void Survey::note_fates(const KeptRun& run, const LocalView& view) {
  const DeviceRecord& record = view.record();
  for (std::size_t row = 0; row < record.allocations.size(); ++row) {
    result_.has_stacks = result_.has_stacks || !record.allocations.stack[row].is_none();
    const std::uint32_t birth = view.birth(row);
    const std::uint32_t death = view.death(row);
    const bool was_there = birth == kNoEvent || birth < last_read_;
    // Dead from an event on that is not there yet: KeptRun::number_at().
    if (!was_there || death < last_read_ || death >= run.events()) continue;
    const std::uint64_t key = birth == kNoEvent ? KeptRun::start_key(row) : birth;
    result_.fates.add({key, death, view.completion(row),
                       record.events.row(record.allocations.free_requested_event[row])});
  }
  result_.fates.end_window(run.events());
  last_read_ = run.events();
}

void Survey::leave_out_bridges() {
  for (std::size_t action = 0; action < kActionCount; ++action)
    leave_out(static_cast<Action>(action), result_.bridging[action], result_.replay.counters);
}

void Survey::finish(const KeptRun& run, const LocalView& view) {
  result_.late_labels = labels_.take_late();
  result_.labelled_places = labels_.take_places();
  result_.events = run.events();
  result_.extent.lost_events = view.record().lost_events;
  // A forged file may say more, as settle_positions() knows.
  for (LostEvents& lost : result_.extent.lost_events)
    lost.before_event = std::min(lost.before_event, result_.events);
  const bool has_steps = has_marked_steps_ || result_.kind != RunKind::inference;
  if (has_steps) {
    result_.floors = floors_.finish(result_.events);
    follow_growth(view, result_.floors.steps, result_.floors.steps.size());
    result_.growth = result_.growth_sum->finish(result_.floors);
  } else {
    // Calls of a model are not training steps.
    for (PhaseSpan& span : result_.spans) span.step = 0;
  }
  result_.repetitions = repetitions_.choose(store_, result_.spans, result_.kind, result_.events,
                                            DecideOptions().fewest_floors);
  // They are those above. What is only cleared keeps its memory.
  if (result_.repetitions.are_steps_of_run) result_.repetitions.spans = std::vector<PhaseSpan>();
}

void Survey::take_card(const DeviceRecord& record) {
  result_.card_usage = follow_card(store_, record, samples_);
  for (const PlacedSample& placed : samples_) {
    result_.samples.push_back(placed.sample);
    result_.samples.back().before_event = placed.position;
  }
}

}  // namespace gpumemprof
