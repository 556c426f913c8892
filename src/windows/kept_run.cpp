#include "windows/kept_run.h"

#include <algorithm>
#include <numeric>

#include "replay/rows.h"

namespace gpumemprof {

void KeptRun::append(const EventColumns& events) {
  numbers_.reserve(numbers_.size() + events.size());
  for (std::size_t index = 0; index < events.size(); ++index)
    numbers_.push_unchecked(events_ + static_cast<std::uint32_t>(index));
  record_.events.append(events, 0, events.size());
  events_ += static_cast<std::uint32_t>(events.size());
}

std::uint32_t KeptRun::place_in_gap(std::uint32_t number) const {
  return static_cast<std::uint32_t>(std::lower_bound(numbers_.begin(), numbers_.end(), number) -
                                    numbers_.begin());
}

void KeptRun::condense(std::uint32_t head, std::uint32_t begin,
                       std::span<const std::uint32_t> always, const KeepRows& keep_rows) {
  if (begin <= std::max(head, recent_)) return;
  const AllocationColumns& rows = record_.allocations;
  const std::uint32_t first_place = place_of(head);
  const std::uint32_t end_place = place_of(begin);
  std::vector<std::uint32_t> kept_rows;
  std::vector<std::uint32_t> places;  // of events between the two that are kept
  const auto keep = [&](std::uint32_t number) {
    if (number < head || number >= begin) return;
    const std::uint32_t place = place_of(number);
    if (place < end_place && numbers_[place] == number) places.push_back(place);
  };
  for (std::uint32_t row = 0; row < rows.size(); ++row) {
    const std::uint32_t birth = rows.alloc_event[row];
    const bool is_old = birth == kNoEvent || birth < head;
    if (!is_old && rows.free_completed_event[row] < begin) continue;
    kept_rows.push_back(row);
    keep(birth);
    keep(rows.free_requested_event[row]);
    keep(rows.free_completed_event[row]);
  }
  for (const std::uint32_t event : always) keep(event);
  std::ranges::sort(places);
  places.erase(std::ranges::unique(places).begin(), places.end());
  keep_events(places, first_place, end_place);
  AllocationLabels& labels = record_.labels;
  if (labels.source.size() == rows.size()) {
    keep_only(labels.source, kept_rows);
    keep_only(labels.flags, kept_rows);
    if (!labels.name.empty()) keep_only(labels.name, kept_rows);
  }
  keep_rows(kept_rows);
  keep_positions(head, begin);
  head_ = head;
  recent_ = begin;
  recent_place_ = static_cast<std::uint32_t>(numbers_.size() - (events_ - begin));
}

// Of events [first, end), those at these places.
void KeptRun::keep_events(const std::vector<std::uint32_t>& places, std::uint32_t first,
                          std::uint32_t end) {
  const auto keep = [&](auto& column) {
    if (column.empty()) return;
    std::size_t at = first;
    for (const std::uint32_t place : places) column[at++] = column[place];
    const std::size_t rest = column.size() - end;
    std::copy(column.begin() + end, column.end(), column.begin() + at);
    column.truncate(at + rest);
  };
  EventColumns& events = record_.events;
  keep(numbers_);
  keep(events.action);
  keep(events.address);
  keep(events.size_bytes);
  keep(events.stream);
  keep(events.time_ns);
  keep(events.stack);
  keep(events.compile_context);
  keep(events.user_metadata);
  keep(events.pool);
  keep(events.forward_stack);
  keep(events.module);
}

// Labels that were said last still hold.
void KeptRun::keep_positions(std::uint32_t head, std::uint32_t begin) {
  const auto is_far = [&](const auto& said) {
    return said.before_event > head && said.before_event < begin;
  };
  std::vector<Labelling>& labellings = record_.labellings;
  const auto after = std::partition_point(
      labellings.begin(), labellings.end(),
      [&](const Labelling& labelling) { return labelling.before_event < begin; });
  const std::uint32_t last = after == labellings.begin() ? 0 : std::prev(after)->before_event;
  std::erase_if(labellings, [&](const Labelling& labelling) {
    return is_far(labelling) && labelling.before_event != last;
  });
  std::erase_if(record_.phase_marks, is_far);
}

LocalView::LocalView(KeptRun& run, FateReader* fates, std::span<const std::uint32_t> landmarks)
    : run_(run), fates_(fates) {
  DeviceRecord& record = run.record_;
  events_ = record.events.size();
  swap_spare();
  AllocationColumns& rows = record.allocations;
  births_.append(rows.alloc_event.span());
  deaths_.append(rows.free_requested_event.span());
  completions_.append(rows.free_completed_event.span());
  if (fates != nullptr) add_later(*fates, landmarks);
  segment_births_.append(record.segments.birth_event.span());
  segment_deaths_.append(record.segments.death_event.span());
  for (Column<std::uint32_t>* numbers :
       {&births_, &deaths_, &completions_, &segment_births_, &segment_deaths_}) {
    for (std::uint32_t& number : *numbers) {
      if (number != kNoEvent) number = run.place_of(number);
    }
  }
  labellings_ = record.labellings;
  marks_ = record.phase_marks;
  for (Labelling& labelling : labellings_)
    labelling.before_event = run.place_of(labelling.before_event);
  for (PhaseMark& mark : marks_) mark.before_event = run.place_of(mark.before_event);
  swap_all();
}

LocalView::~LocalView() {
  swap_all();
  run_.numbers_.truncate(events_);
  run_.record_.events.truncate(events_);
  swap_spare();
}

void LocalView::swap_spare() {
  std::size_t next = 0;
  for (Column<std::uint32_t>* numbers :
       {&births_, &deaths_, &completions_, &segment_births_, &segment_deaths_}) {
    numbers->swap(run_.spare_[next++]);
    numbers->clear();
  }
}

void LocalView::swap_all() {
  DeviceRecord& record = run_.record_;
  record.allocations.alloc_event.swap(births_);
  record.allocations.free_requested_event.swap(deaths_);
  record.allocations.free_completed_event.swap(completions_);
  record.segments.birth_event.swap(segment_births_);
  record.segments.death_event.swap(segment_deaths_);
  record.labellings.swap(labellings_);
  record.phase_marks.swap(marks_);
}

void LocalView::add_later(FateReader& fates, std::span<const std::uint32_t> landmarks) {
  fates.begin_window(run_.events_);
  std::vector<const Fate*> found;
  for (std::size_t row = 0; row < deaths_.size(); ++row) {
    if (deaths_[row] != kNoEvent) continue;
    const Fate* fate = fates.find(run_.key_of(row));
    if (fate == nullptr || fate->free_requested < run_.events_) continue;
    deaths_[row] = fate->free_requested;
    completions_[row] = fate->free_completed;
    found.push_back(fate);
  }
  std::ranges::sort(found, {}, &Fate::free_requested);
  auto landmark = landmarks.begin();
  for (const Fate* fate : found) {
    for (; landmark != landmarks.end() && *landmark < fate->free_requested; ++landmark)
      add_landmark(*landmark);
    if (landmark != landmarks.end() && *landmark == fate->free_requested) ++landmark;
    run_.numbers_.push_back(fate->free_requested);
    run_.record_.events.push_back(fate->event);
  }
  for (; landmark != landmarks.end(); ++landmark) add_landmark(*landmark);
}

void LocalView::add_landmark(std::uint32_t number) {
  EventColumns& events = run_.record_.events;
  Event event;
  event.action = Action::other;
  // Times are in order; its own is not known.
  if (!events.empty()) event.time_ns = events.time_ns[events.size() - 1];
  run_.numbers_.push_back(number);
  events.push_back(event);
}

}  // namespace gpumemprof
