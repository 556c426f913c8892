// Summary: the second pass over a device. It knows what became of everything, gives each window's
// memory its sources, and adds up the report.
#pragma once

#include <deque>

#include "analysis/oom/streamed_history.h"
#include "analysis/overview/overview.h"
#include "analysis/sources/measured.h"
#include "analysis/sources/sweep.h"
#include "windows/checkpoint.h"
#include "windows/leak_sum.h"
#include "windows/survey.h"
#include "windows/window_taker.h"

namespace gpumemprof {

class Summary final : public WindowVisitor {
 public:
  // All must outlive it.
  // The spans of the survey are here until it ends.
  Summary(const Store& store, Survey::Result& survey, const AskedMoment& asked,
          IndexTaker* taker = nullptr);

  // What a failure needs to be proven.
  void let_read_again(StreamedHistory& history) { whole_run_ = &history; }
  // Copies what it needs of the run in passing.
  void let_take(WindowTaker& taker) { window_taker_ = &taker; }
  // Looks for leaks too, unless there are too many repetitions.
  void look_for_leaks();
  // After the last window: the record has the numbers of the run.
  void judge_leaks(const DeviceRecord& record, const LeaksOptions& options);
  void visit(KeptRun& run, const Window& window) override;
  [[nodiscard]] std::span<const std::uint32_t> always_kept() const override { return kept_; }

  // A checkpoint lies before this event of the run.
  void expect_checkpoint(std::uint32_t number, std::uint32_t event) {
    expected_.push_back({number, event});
  }

  // After the last window.
  [[nodiscard]] DeviceOverview& overview() { return overview_; }
  // What is live at the end, as a report about the end shows it.
  [[nodiscard]] DeviceOverview& at_end() { return at_end_; }

 private:
  void choose_kept_events();
  [[nodiscard]] std::vector<std::uint32_t> landmarks_from(std::uint32_t event) const;
  [[nodiscard]] std::vector<PhaseSpan> spans_of(const KeptRun& run, std::size_t events) const;
  [[nodiscard]] std::vector<std::uint32_t> grown_rows(const KeptRun& run, const LocalView& view);
  [[nodiscard]] KnownLabels known_labels(const LocalView& view) const;
  void label(const KeptRun& run, LocalView& view, const std::vector<PhaseSpan>& spans,
             const Window& window);
  void look_at_moments(const KeptRun& run, const DeviceRecord& record, const Window& window);
  void look_at_ooms(const KeptRun& run, const DeviceRecord& record,
                    const std::vector<PhaseSpan>& spans, const Window& window);
  void look(const KeptRun& run, const DeviceRecord& record, Moment moment, DeviceOverview& into);
  void join_tags(DeviceOverview& overview) const;
  [[nodiscard]] When when(const KeptRun& run, std::uint32_t event) const;
  [[nodiscard]] std::vector<DeviceSample> samples_of(const KeptRun& run) const;
  void give_to_index(const KeptRun& run, const LocalView& view, const Window& window);
  [[nodiscard]] std::vector<PhaseSpan> spans_between(std::uint32_t first, std::uint32_t end) const;

  const Store& store_;
  const Survey::Result& survey_;
  FateReader fates_;
  std::vector<std::uint32_t> kept_;  // events
  DeviceOverview overview_;
  DeviceOverview at_end_;
  Sweep sweep_;
  StreamedHistory* whole_run_ = nullptr;
  WindowTaker* window_taker_ = nullptr;
  std::unique_ptr<LeakSum> leaks_;
  IndexTaker* taker_;
  PyramidBuilder pyramid_;
  struct ExpectedCheckpoint {
    std::uint32_t number = 0;
    std::uint32_t event = 0;
  };
  std::deque<ExpectedCheckpoint> expected_;
  std::uint32_t last_checkpoint_ = 0;  // the event behind it
};

}  // namespace gpumemprof
