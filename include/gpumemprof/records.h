// What a recording holds, as C++ values. Sizes are bytes; what is not known is empty, never 0.
// Texts live as long as the Recording, Simulation or Advice that they were read from.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "gpumemprof/gpumemprof.h"

namespace gpumemprof {

// Where a figure comes from.
enum class Provenance : int {
  measured = GPUMEMPROF_MEASURED,
  inferred = GPUMEMPROF_INFERRED,
  simulated = GPUMEMPROF_SIMULATED,
  estimated = GPUMEMPROF_ESTIMATED,
};

enum class RunKind : int {
  unknown = GPUMEMPROF_RUN_UNKNOWN,
  training = GPUMEMPROF_RUN_TRAINING,
  inference = GPUMEMPROF_RUN_INFERENCE,
};

namespace detail {

inline std::string_view text(gpumemprof_text text) {
  return text.data == nullptr ? std::string_view() : std::string_view(text.data, text.size);
}
inline std::optional<std::uint64_t> bytes(std::uint64_t value) {
  return value == GPUMEMPROF_UNKNOWN ? std::nullopt : std::optional<std::uint64_t>(value);
}
inline std::optional<std::uint32_t> number(std::uint32_t value) {
  return value == GPUMEMPROF_NONE ? std::nullopt : std::optional<std::uint32_t>(value);
}
inline std::optional<std::int64_t> time(std::int64_t value) {
  return value == GPUMEMPROF_UNKNOWN_TIME ? std::nullopt : std::optional<std::int64_t>(value);
}
inline std::optional<std::int64_t> saving(std::int64_t value) {
  return value == GPUMEMPROF_UNKNOWN_SAVING ? std::nullopt : std::optional<std::int64_t>(value);
}

}  // namespace detail

struct Totals {
  std::uint64_t allocated_bytes = 0;
  std::uint64_t active_bytes = 0;               // and what is freed, but still in use by a stream
  std::optional<std::uint64_t> reserved_bytes;  // none for CPU tensors, which have no pool
  std::uint64_t requested_bytes = 0;

  Totals() = default;
  explicit Totals(const gpumemprof_totals& raw)
      : allocated_bytes(raw.allocated_bytes),
        active_bytes(raw.active_bytes),
        reserved_bytes(detail::bytes(raw.reserved_bytes)),
        requested_bytes(raw.requested_bytes) {}
};

struct Event {
  std::string_view action;    // "alloc", "free_requested", "segment_alloc" …
  std::uint64_t address = 0;  // of "oom": how many bytes the device had free
  // Of a block, what was requested; it may take more from the pool (Allocation has both);
  // of "segment_…", what the pool took or returned; of "oom", the refused request, rounded.
  std::uint64_t size_bytes = 0;
  std::uint64_t stream = 0;
  std::optional<std::int64_t> time_ns;
  std::optional<std::uint32_t> stack;          // for Recording::stack()
  std::optional<std::uint32_t> forward_stack;  // of memory allocated in backward
  std::string_view module;                     // "transformer.h.0"; may be empty
  std::string_view compile_context;            // may be empty

  explicit Event(const gpumemprof_event& raw)
      : action(gpumemprof_action_name(raw.action)),
        address(raw.address),
        size_bytes(raw.size_bytes),
        stream(raw.stream),
        time_ns(detail::time(raw.time_ns)),
        stack(detail::number(raw.stack)),
        forward_stack(detail::number(raw.forward_stack)),
        module(detail::text(raw.module)),
        compile_context(detail::text(raw.compile_context)) {}
};

struct Allocation {
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;                 // of the block: what it takes from the pool
  std::uint64_t requested_bytes = 0;            // what was asked for
  std::optional<std::uint32_t> alloc_event;     // none: it was there when the history began
  std::optional<std::uint32_t> free_event;      // none: live at the end
  std::optional<std::uint32_t> reusable_event;  // when no stream used it any more
  std::optional<std::uint32_t> stack;
  std::uint64_t stream = 0;
  std::string_view source;                       // what it is for: "parameters", "gradients" …
  Provenance provenance = Provenance::inferred;  // of the source
  std::string_view name;                         // "h.3.mlp.c_fc.weight"; may be empty

  explicit Allocation(const gpumemprof_allocation& raw)
      : address(raw.address),
        size_bytes(raw.size_bytes),
        requested_bytes(raw.requested_bytes),
        alloc_event(detail::number(raw.alloc_event)),
        free_event(detail::number(raw.free_event)),
        reusable_event(detail::number(raw.reusable_event)),
        stack(detail::number(raw.stack)),
        stream(raw.stream),
        source(gpumemprof_source_name(raw.source)),
        provenance(raw.is_measured != 0 ? Provenance::measured : Provenance::inferred),
        name(detail::text(raw.name)) {}
};

struct Frame {
  std::string_view function;
  std::string_view file;
  std::uint32_t line = 0;

  explicit Frame(const gpumemprof_frame& raw)
      : function(detail::text(raw.function)), file(detail::text(raw.file)), line(raw.line) {}
};

// The state after an event.
struct Moment {
  std::uint32_t event = 0;
  std::uint32_t step = 0;  // from 1; 0: before the first
  std::string_view phase;  // "forward", "backward", "optimizer_step", "evaluation", "other"
  std::optional<std::int64_t> time_ns;
  Totals totals;

  explicit Moment(const gpumemprof_moment& raw)
      : event(raw.event),
        step(raw.step),
        phase(gpumemprof_phase_name(raw.phase)),
        time_ns(detail::time(raw.time_ns)),
        totals(raw.totals) {}
};

// Bytes by source: parts.size() sources that hold something, and the rounding; all add up to the
// allocated bytes.
struct SourceBytes {
  struct Part {
    std::string_view source;
    std::uint64_t bytes = 0;
  };
  std::vector<Part> parts;
  std::uint64_t rounding_bytes = 0;  // blocks are larger than requested

  SourceBytes() = default;
  explicit SourceBytes(const gpumemprof_source_bytes& raw) : rounding_bytes(raw.rounding_bytes) {
    for (int source = 0; source < GPUMEMPROF_MOST_SOURCES; ++source) {
      if (raw.by_source[source] != 0)
        parts.push_back({gpumemprof_source_name(source), raw.by_source[source]});
    }
  }
};

struct Source {
  std::string_view name;
  std::uint64_t bytes_at_peak = 0;
  Provenance provenance = Provenance::inferred;  // of bytes_at_peak
  std::uint64_t bytes_max = 0;                   // its own maximum, generally not at the peak
  Provenance max_provenance = Provenance::inferred;
  std::optional<std::uint32_t> max_event;

  explicit Source(const gpumemprof_source& raw)
      : name(gpumemprof_source_name(raw.source)),
        bytes_at_peak(raw.bytes_at_peak),
        provenance(static_cast<Provenance>(raw.provenance)),
        bytes_max(raw.bytes_max),
        max_provenance(static_cast<Provenance>(raw.max_provenance)),
        max_event(detail::number(raw.max_event)) {}
};

struct Step {
  std::uint32_t step = 0;  // from 1; 0: before the first
  std::uint32_t first_event = 0;
  std::uint32_t last_event = 0;
  std::optional<std::uint32_t> peak_event;
  std::uint64_t peak_bytes = 0;
  std::uint64_t live_bytes = 0;   // allocated after its last event
  std::uint64_t floor_bytes = 0;  // the least allocated in it
  SourceBytes at_peak;

  explicit Step(const gpumemprof_step& raw)
      : step(raw.step),
        first_event(raw.first_event),
        last_event(raw.last_event),
        peak_event(detail::number(raw.peak_event)),
        peak_bytes(raw.peak_bytes),
        live_bytes(raw.live_bytes),
        floor_bytes(raw.floor_bytes),
        at_peak(raw.at_peak) {}
};

// One run under allocator settings.
struct SimulatedRun {
  int device = 0;               // index
  std::string_view alloc_conf;  // empty: the defaults
  std::optional<std::uint64_t> memory_limit_bytes;
  bool is_recorded = false;  // under the recorded settings and limit
  bool is_verified = false;  // the simulator reproduces the recording of this device exactly
  std::uint64_t peak_allocated_bytes = 0;
  std::uint64_t peak_reserved_bytes = 0;
  std::uint64_t out_of_memory = 0;                // how often memory ran out
  std::optional<std::uint64_t> min_memory_bytes;  // the least in which it completes

  explicit SimulatedRun(const gpumemprof_simulated& raw)
      : device(raw.device),
        alloc_conf(detail::text(raw.alloc_conf)),
        memory_limit_bytes(detail::bytes(raw.memory_limit_bytes)),
        is_recorded(raw.is_recorded != 0),
        is_verified(raw.is_verified != 0),
        peak_allocated_bytes(raw.peak_allocated_bytes),
        peak_reserved_bytes(raw.peak_reserved_bytes),
        out_of_memory(raw.out_of_memory),
        min_memory_bytes(detail::bytes(raw.min_memory_bytes)) {}
};

// A prediction is never given without its band.
struct Prediction {
  std::uint64_t bytes = 0;
  std::uint64_t low_bytes = 0;
  std::uint64_t high_bytes = 0;

  static std::optional<Prediction> from(const gpumemprof_predicted& raw) {
    if (raw.bytes == GPUMEMPROF_UNKNOWN) return std::nullopt;
    return Prediction{raw.bytes, raw.low_bytes, raw.high_bytes};
  }
};

enum class RemedyCost : int {
  free = GPUMEMPROF_COST_FREE,
  slower = GPUMEMPROF_COST_SLOWER,
  changes_training = GPUMEMPROF_COST_CHANGES_TRAINING,
};

struct Remedy {
  std::string_view name;
  std::string_view title;
  RemedyCost cost = RemedyCost::free;
  Provenance provenance = Provenance::simulated;
  std::optional<Prediction> peak_allocated;  // none: `why` says why
  std::optional<Prediction> peak_reserved;
  std::optional<std::uint64_t> at_least_bytes;  // where only a part of a step is known
  // Of allocated bytes; negative: it takes more. None where peak_allocated has none.
  std::optional<std::int64_t> saving_bytes;
  std::optional<double> slowdown_percent;
  std::string_view why;
  std::string_view how;  // code for plain PyTorch

  explicit Remedy(const gpumemprof_remedy& raw)
      : name(detail::text(raw.name)),
        title(detail::text(raw.title)),
        cost(static_cast<RemedyCost>(raw.cost)),
        provenance(static_cast<Provenance>(raw.provenance)),
        peak_allocated(Prediction::from(raw.peak_allocated)),
        peak_reserved(Prediction::from(raw.peak_reserved)),
        at_least_bytes(detail::bytes(raw.at_least_bytes)),
        saving_bytes(detail::saving(raw.saving_bytes)),
        slowdown_percent(std::isnan(raw.slowdown_percent)
                             ? std::nullopt
                             : std::optional<double>(raw.slowdown_percent)),
        why(detail::text(raw.why)),
        how(detail::text(raw.how)) {}
};

}  // namespace gpumemprof
