// Sweep: one pass over a device's history that tracks what each source holds, for maxima, the
// series over time, and the figures of phases and steps.
//
// The history may come in parts, one after the other: what is live is carried from part to part.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "analysis/sources/sources.h"
#include "analysis/timeline/pyramid.h"

namespace gpumemprof {

// Events [first, end) of a record; its rows are numbered like its events, and event `first` is
// number `number` of the run.
struct SweptPart {
  const DeviceRecord& record;
  const AllocationLabels& labels;
  std::size_t first = 0;
  std::size_t end = 0;
  std::uint32_t number = 0;
};

class Sweep {
 public:
  // `events`: of the whole history.
  Sweep(std::size_t events, bool has_labels, const SourcesOptions& options);

  // What was live before the first event. The report's spans are those up to the end of the part.
  void start(const DeviceRecord& record, const AllocationLabels& labels, DeviceSources& sources);
  void pass(const SweptPart& part, DeviceSources& sources);
  // Between two parts, so that memory does not grow with the steps: of those in the middle of a
  // long run, only the largest one is kept. Each end keeps `ends` steps.
  void fold(std::size_t ends, DeviceSources& sources);
  // After the last part.
  void finish(DeviceSources& sources);
  // Notes every moment there too; it must outlive the sweep.
  void fill(PyramidBuilder& pyramid) { pyramid_ = &pyramid; }

 private:
  void sort_lifetimes(const SweptPart& part);
  void step_over(const SweptPart& part, std::size_t index, DeviceSources& sources);
  void note_series(std::uint32_t event, SourceSeries& series);
  void enter_span(std::uint32_t event, DeviceSources& sources);
  // `born`: the source of what the event allocated, if it did.
  void note_phase(std::uint32_t event, std::optional<MemorySource> born, PhaseFigures& phase) const;
  void raise_maximum(SourceFigure& figure, std::uint64_t bytes, std::uint32_t event,
                     std::uint64_t inferred) const;
  void forget_unneeded(DeviceSources& sources, std::size_t end) const;
  void leave_out_steps(std::size_t ends, DeviceSources& sources);
  // Phases up to this row.
  void sum_up_steps(std::size_t end, DeviceSources& sources);
  void add(const DeviceRecord& record, const AllocationLabels& labels, std::size_t row);
  void remove(const DeviceRecord& record, const AllocationLabels& labels, std::size_t row);

  std::size_t events_;
  bool has_labels_;
  std::size_t series_points_;
  Column<std::uint32_t> births_;       // rows of the part in order of birth
  std::size_t next_birth_ = 0;         // into births_
  Column<std::uint32_t> first_death_;  // by event of the part: a row that dies there
  Column<std::uint32_t> next_death_;   // by row: another that dies at the same event
  SourceBytes now_;
  std::array<std::uint64_t, kMemorySourceCount> inferred_{};  // live rows that no label names
  std::uint64_t allocated_ = 0;
  std::uint64_t saved_ = 0;       // activations but for those that grow from step to step
  std::size_t span_ = 0;          // the next one to enter
  std::size_t summed_ = 0;        // phases that are part of a step already
  std::uint64_t bucket_end_ = 0;  // of the series: the first event behind it
  std::uint64_t bucket_peak_ = 0;
  PyramidBuilder* pyramid_ = nullptr;
};

}  // namespace gpumemprof
