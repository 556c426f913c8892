// Sweep: one pass over a device's history that tracks what each source holds, for maxima, the
// series over time, and the figures of phases and steps.
#pragma once

#include <vector>

#include "analysis/sources/sources.h"

namespace gpumemprof {

class Sweep {
 public:
  // The record and labels must outlive it.
  Sweep(const DeviceRecord& record, const AllocationLabels& labels, const SourcesOptions& options);

  // Needs the report's spans; fills bytes_max, series, phases and steps.
  void run(DeviceSources& sources);

 private:
  void sort_lifetimes();
  void start(DeviceSources& sources);
  void step_over(std::uint32_t event, DeviceSources& sources);
  void note_series(std::uint32_t event, SourceSeries& series);
  void enter_span(std::uint32_t event, DeviceSources& sources);
  void note_phase(std::uint32_t event, PhaseFigures& phase) const;
  static void forget_unneeded(DeviceSources& sources);
  static void sum_up_steps(DeviceSources& sources);

  void add(std::size_t row) {
    const AllocationColumns& rows = record_.allocations;
    now_.add(labels_.source[row], rows.requested_bytes[row], rows.size_bytes[row]);
    allocated_ += rows.size_bytes[row];
  }
  void remove(std::size_t row) {
    const AllocationColumns& rows = record_.allocations;
    now_.remove(labels_.source[row], rows.requested_bytes[row], rows.size_bytes[row]);
    allocated_ -= rows.size_bytes[row];
  }

  const DeviceRecord& record_;
  const AllocationLabels& labels_;
  std::size_t series_points_;
  Column<std::uint32_t> births_;       // rows in order of birth, excluding those from before
  std::size_t next_birth_ = 0;         // into births_
  Column<std::uint32_t> first_death_;  // by event: a row that dies there
  Column<std::uint32_t> next_death_;   // by row: another that dies at the same event
  SourceBytes now_;
  std::uint64_t allocated_ = 0;
  std::size_t span_ = 0;    // the next one to enter
  std::size_t bucket_ = 0;  // of the series, counted from 1
  std::uint64_t bucket_peak_ = 0;
};

}  // namespace gpumemprof
