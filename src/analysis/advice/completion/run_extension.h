// RunExtension: a recorded run up to an event, and what is added after it.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "analysis/advice/run/run_facts.h"
#include "store/store.h"

namespace gpumemprof {

class RunExtension {
 public:
  // Keeps the events before `end`. Rows still live then live to the end until bury() says
  // otherwise.
  RunExtension(const DeviceRecord& recorded, const std::vector<PhaseSpan>& spans,
               std::uint32_t end);

  [[nodiscard]] std::uint32_t next_event() const {
    return static_cast<std::uint32_t>(record_.events.size());
  }
  void begin_span(Phase phase, std::uint32_t step);
  // A new allocation; returns its row.
  std::uint32_t add(std::uint64_t bytes, StackId stack, MemorySource source);
  void free(std::uint32_t row);
  // Repeats recorded events: what they allocated is allocated again, and freed as it was. Rows that
  // outlive the range live to the end. `takes` decides which rows are repeated, `resize` how large
  // they are. Returns the new rows that outlive it.
  std::vector<std::uint32_t> repeat(EventRange events, std::uint32_t step,
                                    const std::vector<PhaseSpan>& spans,
                                    const std::function<bool(std::uint32_t row)>& takes,
                                    const std::function<std::uint64_t(std::uint32_t row)>& resize);
  // The row is freed at an event that repeat() created or will create.
  void bury(std::uint32_t row, std::uint32_t event);
  [[nodiscard]] std::uint32_t birth(std::uint32_t row) const {
    return record_.allocations.alloc_event[row];
  }
  [[nodiscard]] MemorySource source(std::uint32_t row) const {
    return record_.labels.source_in_step(row);
  }
  // Gives a recorded row the label of its counterpart, for which what followed is known.
  void relabel(std::uint32_t row, std::uint32_t like) {
    record_.labels.source[row] = recorded_.labels.source[like];
    record_.labels.flags[row] = recorded_.labels.flags[like];
  }
  [[nodiscard]] bool lives(std::uint32_t row) const {
    return record_.allocations.free_requested_event[row] == kNoEvent;
  }

  [[nodiscard]] DeviceRecord take_record() { return std::move(record_); }
  [[nodiscard]] std::vector<PhaseSpan> take_spans() { return std::move(spans_); }

 private:
  void copy_rows(std::uint32_t end);
  void add_event(Action action, std::uint64_t bytes, StackId stack);

  const DeviceRecord& recorded_;
  DeviceRecord record_;
  std::vector<PhaseSpan> spans_;
};

}  // namespace gpumemprof
