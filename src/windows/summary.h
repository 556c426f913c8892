// Summary: the second pass over a device. It knows what became of everything, gives each window's
// memory its sources, and adds up the report.
#pragma once

#include "analysis/overview/overview.h"
#include "analysis/sources/sweep.h"
#include "windows/survey.h"

namespace gpumemprof {

class Summary final : public WindowVisitor {
 public:
  // All must outlive it.
  Summary(const Store& store, const Survey::Result& survey, const AskedMoment& asked);

  void visit(KeptRun& run, const Window& window) override;
  [[nodiscard]] std::uint32_t always_kept() const override { return survey_.first_backward; }

  // After the last window.
  [[nodiscard]] DeviceOverview& overview() { return overview_; }

 private:
  [[nodiscard]] std::vector<PhaseSpan> spans_of(const KeptRun& run, std::size_t events) const;
  [[nodiscard]] std::vector<std::uint32_t> grown_rows(const KeptRun& run, const LocalView& view);
  void label(const KeptRun& run, LocalView& view, const std::vector<PhaseSpan>& spans,
             const Window& window);
  void look_at_moments(const KeptRun& run, const DeviceRecord& record, const Window& window);
  void look_at_ooms(const KeptRun& run, const DeviceRecord& record,
                    const std::vector<PhaseSpan>& spans, const Window& window);
  void join_tags();
  [[nodiscard]] When when(const KeptRun& run, std::uint32_t event) const;
  [[nodiscard]] std::vector<DeviceSample> samples_of(const KeptRun& run) const;

  const Store& store_;
  const Survey::Result& survey_;
  DeviceOverview overview_;
  Sweep sweep_;
};

}  // namespace gpumemprof
