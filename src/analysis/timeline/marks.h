// Marks: what is drawn on a device's timeline beside its memory: steps, phases and annotations as
// spans, out-of-memory errors, the card and the limit on the process.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analysis/sources/sources.h"
#include "analysis/timeline/timeline.h"
#include "replay/replay.h"
#include "store/store.h"

namespace gpumemprof {

struct MarkedSpan {
  enum class Kind : std::uint8_t { step, phase, annotation };
  std::string name;
  Position from = 0;
  Position to = 0;
  std::int64_t from_ns = kUnknownTime;
  std::int64_t to_ns = kUnknownTime;
  std::uint32_t depth = 0;  // how many others it lies in
  Kind kind = Kind::annotation;
};

struct MarkedOom {
  Position position = 0;
  std::int64_t time_ns = kUnknownTime;
  std::uint64_t wanted_bytes = 0;
};

struct Marks {
  std::vector<MarkedSpan> spans;  // in order of time; the longest where there are too many
  std::uint64_t spans_left_out = 0;
  std::vector<MarkedOom> ooms;  // the first ones
  std::uint64_t ooms_left_out = 0;
  std::optional<std::uint64_t> card_bytes;   // all the memory the card has
  std::optional<std::uint64_t> limit_bytes;  // what the process may reserve
  bool is_limit_inferred = false;            // from what failed, not stated
};

struct MarksOptions {
  std::size_t most_spans = 3000;
  std::size_t most_ooms = 200;
};

Marks find_marks(const Store& store, const DeviceRecord& record, const DeviceReplay& replay,
                 const std::vector<PhaseSpan>& phases, const EventTimes& times,
                 const MarksOptions& options = {});

}  // namespace gpumemprof
