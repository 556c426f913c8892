// Excerpt: a stretch of one device of a long recording, read from the recording's own blocks as if
// it were a run of its own.
//
// It begins at a checkpoint of the index. The segments of that moment are listed as the state at
// the start; what lived in them is allocated again by some events before the first of the stretch,
// the prelude: with its own time, stack, module and tag, in the order in which it was once
// allocated. So every analysis works on an excerpt as on any run, but for positions: event
// `prelude + n` of the excerpt is event `first_event + n` of the run.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "analysis/sources/sources.h"
#include "event/event_sink.h"

namespace gpumemprof {

class DefinitionCopy;
class IndexFile;

// An allocation whose source is known from the whole run.
struct KnownAllocation {
  // Of the run; kNoEvent: it is older than the recording.
  std::uint32_t birth_event = kNoEvent;
  std::uint32_t event = 0;  // that allocates it, of the excerpt
  MemorySource source = MemorySource::unknown;
  std::uint8_t flags = 0;  // as in AllocationLabels
  StringId name;           // the sink's
};

struct Excerpt {
  DeviceIndex device = 0;
  // Of the run: what was delivered after the prelude is [first_event, end_event). Both ends are
  // checkpoints, so it may be more than was asked for.
  std::uint32_t first_event = 0;
  std::uint32_t end_event = 0;
  std::uint32_t prelude = 0;  // events before the first
  // What lived before the stretch or outlives it, in order of `event`: its source follows from
  // more than the stretch shows.
  std::vector<KnownAllocation> known;
  // The phases, in numbers of the excerpt, with the steps of the run; they begin after the prelude.
  std::vector<PhaseSpan> spans;
  RunKind kind = RunKind::unknown;

  [[nodiscard]] std::uint32_t to_run(std::uint32_t event) const {
    return event < prelude ? kNoEvent : event - prelude + first_event;
  }
  [[nodiscard]] std::uint32_t from_run(std::uint32_t event) const {
    return event - first_event + prelude;
  }
};

class ExcerptSource final : public EventSource {
 public:
  ~ExcerptSource() override;

  // Call once.
  Status deliver(EventSink& sink) override;
  // After it.
  [[nodiscard]] const Excerpt& excerpt() const { return excerpt_; }

 private:
  friend class RunIndex;
  struct Plan;
  explicit ExcerptSource(std::unique_ptr<Plan> plan);
  Status read_blocks(const DefinitionCopy& copy, EventSink& sink);
  Status take_later_states(const DefinitionCopy& copy);

  std::unique_ptr<Plan> plan_;
  Excerpt excerpt_;
};

}  // namespace gpumemprof
