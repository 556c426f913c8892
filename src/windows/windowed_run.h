// WindowedRun: the report of a run that is too long to be held in memory.
//
// Whatever delivers the run is read twice, in order: once to survey it, once to sum it up. Memory
// grows with the steps, the lines of code and what is live, not with the events.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analysis/oom/streamed_history.h"
#include "analysis/overview/overview.h"
#include "event/event_sink.h"
#include "windows/part_taker.h"
#include "windows/summary.h"
#include "windows/survey.h"

namespace gpumemprof {

class WindowedRun {
 public:
  // Delivers the run from its beginning into the sink; called for each pass.
  using Deliver = std::function<Status(EventSink& sink)>;

  WindowedRun(std::string path, Deliver deliver, WindowSizes sizes);
  ~WindowedRun();
  WindowedRun(const WindowedRun&) = delete;
  WindowedRun& operator=(const WindowedRun&) = delete;

  // The first pass. False if it must be read as a whole: the state at its start is not known.
  Result<bool> survey();
  // Before the second pass: failures are proven by simulating the whole run, which this delivers
  // once more, also while another delivery is under way.
  void let_prove_failures(Deliver again) { again_ = std::move(again); }
  // After the first pass: the run failed, is short enough that its whole history can show why, and
  // must be in memory for that.
  [[nodiscard]] bool needs_whole_for_proof() const;
  // The second pass. With a taker, what an index holds goes there.
  Result<Overview> overview(const OverviewOptions& options, IndexTaker* taker = nullptr,
                            const LeaksOptions& leaks = {});
  // The last overview, about the end instead.
  [[nodiscard]] Overview& at_end() { return at_end_; }

  // After the first pass: a part of each of these devices, by another pass.
  Result<std::vector<RunPart>> take_parts(const std::map<DeviceIndex, ExcerptRange>& ranges);
  // After the first pass: shows every window of these devices, by another pass, which is the last.
  Status show_windows(const std::map<DeviceIndex, WindowTaker*>& takers);
  // After the first pass; null if there is no such device.
  [[nodiscard]] const Survey::Result* found(DeviceIndex device) const;
  [[nodiscard]] std::vector<DeviceIndex> devices() const;

  // What events refer to; no events.
  [[nodiscard]] const Store& store() const { return store_; }

 private:
  class Pass;
  using Histories = std::map<DeviceIndex, StreamedHistory>;
  using Summaries = std::map<DeviceIndex, std::unique_ptr<Summary>>;
  enum class Order : std::uint8_t { first, later };

  Result<bool> survey(Order order);
  Result<Overview> begin_overview(const OverviewOptions& options,
                                  std::vector<DeviceIndex>& asked) const;
  Status find_repetition_floors();
  [[nodiscard]] bool is_provable(const Survey::Result& found) const;
  Histories histories(Summaries& summaries);
  Status sum_up(Summaries& summaries, IndexTaker* taker, const LeaksOptions& leaks = {});

  std::string path_;
  Deliver deliver_;
  Deliver again_;  // empty: no failure is proven
  WindowSizes sizes_;
  Store store_;
  std::unique_ptr<SurveyedLabelSets> surveyed_label_sets_;  // while it is surveyed
  std::map<DeviceIndex, std::unique_ptr<Survey>> surveys_;
  std::map<DeviceIndex, bool> starts_expandable_;
  // By set of labels: the last labelling that uses it, and the row that stands for it in a survey.
  std::vector<std::uint32_t> last_use_;
  std::vector<std::uint8_t> rows_of_sets_;
  std::map<std::optional<LabelKind>, std::uint8_t> surveyed_sets_;  // by kind; none: it is empty
  bool is_surveyed_ = false;
  Overview at_end_;
};

}  // namespace gpumemprof
