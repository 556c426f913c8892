// PartSource: parts of a run, as a summary took them → events, as a recording of their own.
//
// The segments of a part's start are listed; what was live in them is allocated again by the events
// of the lead-in, in the order in which it was once allocated.
#pragma once

#include <vector>

#include "event/event_sink.h"
#include "session/recording.h"
#include "store/store.h"
#include "windows/part_taker.h"

namespace gpumemprof {

class PartSource final : public EventSource {
 public:
  // The store is what the parts refer to, and must outlive this.
  PartSource(const Store& store, std::vector<RunPart> parts)
      : store_(store), parts_(std::move(parts)) {}

  // Into an empty store: ids stay as they are.
  Status deliver(EventSink& sink) override;
  // After it: what the whole run shows about each device.
  [[nodiscard]] std::vector<KnownPart> known() { return std::move(known_); }

 private:
  void deliver_definitions(EventSink& sink) const;
  void deliver_part(EventSink& sink, const RunPart& part);
  [[nodiscard]] EventColumns lead_in(const RunPart& part, KnownPart& known) const;
  void deliver_said(EventSink& sink, const RunPart& part, const ExcerptRange& range) const;
  void deliver_steps(EventSink& sink, const RunPart& part, const ExcerptRange& range) const;
  void deliver_annotations(EventSink& sink) const;

  const Store& store_;
  std::vector<RunPart> parts_;
  std::vector<KnownPart> known_;
};

}  // namespace gpumemprof
