// Summary: the second pass over a device. It knows what became of everything, gives each window's
// memory its sources, and adds up the report.
#pragma once

#include "analysis/overview/overview.h"
#include "analysis/sources/sweep.h"
#include "windows/part_taker.h"
#include "windows/survey.h"

namespace gpumemprof {

class Summary final : public WindowVisitor {
 public:
  // All must outlive it.
  // The spans of the survey are here until it ends.
  Summary(const Store& store, Survey::Result& survey, const AskedMoment& asked);

  // Copies a part of the run in passing.
  void let_take(PartTaker& taker) { taker_ = &taker; }
  void visit(KeptRun& run, const Window& window) override;
  [[nodiscard]] std::uint32_t always_kept() const override { return survey_.first_backward; }

  // After the last window.
  [[nodiscard]] DeviceOverview& overview() { return overview_; }
  // What is live at the end, as a report about the end shows it.
  [[nodiscard]] DeviceOverview& at_end() { return at_end_; }

 private:
  [[nodiscard]] std::vector<PhaseSpan> spans_of(const KeptRun& run, std::size_t events) const;
  [[nodiscard]] std::vector<std::uint32_t> grown_rows(const KeptRun& run, const LocalView& view);
  void label(const KeptRun& run, LocalView& view, const std::vector<PhaseSpan>& spans,
             const Window& window);
  void look_at_moments(const KeptRun& run, const DeviceRecord& record, const Window& window);
  void look_at_ooms(const KeptRun& run, const DeviceRecord& record,
                    const std::vector<PhaseSpan>& spans, const Window& window);
  void look(const KeptRun& run, const DeviceRecord& record, Moment moment, DeviceOverview& into);
  void join_tags(DeviceOverview& overview) const;
  [[nodiscard]] When when(const KeptRun& run, std::uint32_t event) const;
  [[nodiscard]] std::vector<DeviceSample> samples_of(const KeptRun& run) const;

  const Store& store_;
  const Survey::Result& survey_;
  DeviceOverview overview_;
  DeviceOverview at_end_;
  Sweep sweep_;
  PartTaker* taker_ = nullptr;
};

}  // namespace gpumemprof
