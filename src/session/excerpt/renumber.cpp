#include "session/excerpt/renumber.h"

namespace gpumemprof {
namespace {

void renumber(const ExcerptRange& range, DeviceSources& sources) {
  const auto number = [&](std::uint32_t& event) { event = range.number_of(event); };
  number(sources.peak_event);
  for (SourceFigure& figure : sources.figures) number(figure.max_event);
  number(sources.rounding.max_event);
  for (PhaseFigures& phase : sources.phases) {
    number(phase.first_event);
    number(phase.last_event);
    number(phase.peak_event);
  }
  for (StepFigures& step : sources.steps) {
    number(step.first_event);
    number(step.last_event);
    number(step.peak_event);
  }
  for (PhaseSpan& span : sources.spans) number(span.first_event);
  for (std::uint32_t& event : sources.series.event) number(event);
}

}  // namespace

void renumber(const ExcerptRange& range, DeviceOverview& device) {
  const auto number = [&](std::uint32_t& event) { event = range.number_of(event); };
  device.events = range.run_events;
  number(device.replay.peak_event);
  number(device.replay.peak_reserved_event);
  for (When* const when : {&device.peak_when, &device.asked_when}) number(when->event);
  for (When& when : device.oom_whens) number(when.event);
  for (OomReport& oom : device.ooms) number(oom.event);
  for (PinnedSegment& pinned : device.pins.segments) number(pinned.pin_event);
  const AskedMoment::Kind kind = device.asked.kind;
  if (kind == AskedMoment::Kind::event || kind == AskedMoment::Kind::step)
    number(device.asked.event);
  if (device.card_usage) number(device.card_usage->before_event);
  renumber(range, device.sources);
  // A part says nothing about what happens after it.
  device.leaks.reset();
}

}  // namespace gpumemprof
