#include "windows/leak_sum.h"

#include <algorithm>

namespace gpumemprof {
namespace {

// Calls of a model are as many as the program makes: their floors take 50 bytes each.
constexpr std::uint32_t kMostRepetitions = 4'000'000;

}  // namespace

FloorSurvey::FloorSurvey(const Store& store, const Repetitions& repetitions)
    : repetitions_(repetitions) {
  const bool is_searched =
      repetitions.kind == RepetitionKind::calls || repetitions.kind == RepetitionKind::lines;
  if (is_searched && repetitions.count <= kMostRepetitions) begins_.emplace(store, repetitions_);
}

void FloorSurvey::visit(KeptRun& run, const Window& window) {
  if (repetitions_.count > kMostRepetitions) return;
  const EventColumns& events = run.record().events;
  const std::uint32_t begin = run.place_of(window.first);
  for (std::uint32_t event = window.first; event < window.end; ++event) {
    const std::size_t place = begin + (event - window.first);
    if (begins_ && begins_->begins(events, place)) add_repetition(repetitions_.spans, event);
    floors_.note(event, events.action[place], events.size_bytes[place], repetitions_.spans);
  }
  if (window.is_last) found_ = floors_.finish(window.end);
}

std::optional<StepFloors> FloorSurvey::take_floors() {
  if (repetitions_.count > kMostRepetitions) return std::nullopt;
  return std::move(found_);
}

LeakSum::LeakSum(const Store& store, const Survey::Result& survey, const StepFloors& floors)
    : collections_ns_(collection_times(store, survey.extent.device)),
      ground_{survey.extent.device,
              survey.kind,
              survey.repetitions.kind,
              survey.repetitions.line,
              {},
              {},
              {}},
      floors_(floors),
      filler_(store, floors) {}

void LeakSum::take(const KeptRun& run, const LocalView& view, const Window& window,
                   const std::vector<PhaseSpan>& /*spans*/) {
  const DeviceRecord& record = view.record();
  const std::uint32_t begin = run.place_of(window.first);
  const std::uint32_t end = begin + (window.end - window.first);
  // What follows the window may show that its last frees are part of a collection.
  const std::uint32_t known = begin + (run.events() - window.first);
  const std::vector<Collection> collections =
      find_collections(collections_ns_, record, begin, known, window.is_last);
  const AllocationColumns& rows = record.allocations;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const std::uint32_t birth = view.birth(row);
    const std::uint32_t death = rows.free_requested_event[row];
    const Lifetime life{birth, death == kNoEvent ? kNoEvent : run.number_at(death)};
    const bool is_born =
        birth == kNoEvent ? window.first == 0 : birth >= window.first && birth < window.end;
    if (is_born) filler_.add(record, row, life);
    if (!collections.empty() && death >= begin && death < end && is_in(collections, death))
      filler_.add_collected(record, row, life);
  }
  const EventColumns& events = record.events;
  for (std::uint32_t place = begin; place < end; ++place)
    filler_.add_event(window.first + (place - begin), events.action[place],
                      events.size_bytes[place]);
  filler_.settle(window.end);
}

LeakGround LeakSum::finish(const DeviceRecord& record) {
  filler_.add_reserved(record.device, record.segments);
  ground_.floors = floors_;
  ground_.table = filler_.take_table();
  ground_.kept = filler_.take_kept();
  return std::move(ground_);
}

}  // namespace gpumemprof
