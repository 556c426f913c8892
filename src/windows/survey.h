// Survey: the first pass over a device. It finds what only the whole run shows: the phases and
// steps, what grows from step to step, and what became of the memory that each window leaves.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <vector>

#include "analysis/card_usage/card_usage.h"
#include "analysis/completeness/completeness.h"
#include "analysis/growth/growth.h"
#include "analysis/leaks/repetitions.h"
#include "analysis/oom/oom.h"
#include "analysis/sources/sources.h"
#include "analysis/tags/tags.h"
#include "windows/device_pass.h"
#include "windows/labels/label_survey.h"

namespace gpumemprof {

class Survey final : public WindowVisitor {
 public:
  // Both must outlive it.
  Survey(DeviceIndex device, const Store& store, SurveyedLabelSets& sets);

  void add(const DeviceSample& sample) { samples_.push_back({sample, sample.before_event, {}}); }
  // Numbered by the sets of labels above.
  void add(const Labelling& labelling) { labels_.add(labelling); }
  void visit(KeptRun& run, const Window& window) override;
  [[nodiscard]] std::uint32_t needed_from() const override;

  // After the last window, once the result has what was replayed.
  void leave_out_bridges();
  // After the last window: reads the segments of the whole run.
  void take_card(const DeviceRecord& record);

  // After the last window.
  struct Result {
    RunKind kind = RunKind::unknown;
    std::vector<PhaseSpan> spans;
    StepFloors floors;
    Repetitions repetitions;  // that leaks are looked for in
    // Theirs, where they are not the steps of the run. None: they are too many to hold.
    std::optional<StepFloors> repetition_floors;
    Growth growth;
    std::unique_ptr<GrowthSum> growth_sum;
    Fates fates;
    FlatMap<LateLabel> late_labels;  // by KeptRun::key_of()
    LabelledPlaces labelled_places;
    DeviceExtent extent;
    // Events that lead over gaps between chapters, by kind: the program did not make them.
    std::array<std::uint64_t, kActionCount> bridging = {};
    std::uint32_t events = 0;
    std::vector<std::uint32_t> ooms;  // the first few
    std::vector<EarlierRequests> before_ooms;
    std::vector<TagFigures> tags;  // in order of their first use; what they held most
    std::optional<CardUsage> card_usage;
    std::vector<DeviceSample> samples;
    DeviceReplay replay;
    ListedState start;  // what was there before the first event
    std::uint32_t first_backward = kNoEvent;
    bool has_stacks = false;
    bool has_labels = false;
  };
  [[nodiscard]] const Result& result() const { return result_; }
  [[nodiscard]] Result& result() { return result_; }

 private:
  void take_spans(const KeptRun& run, const std::vector<PhaseSpan>& local, const Window& window);
  void take_kind(const DeviceRecord& record, const std::vector<PhaseSpan>& local);
  void follow_events(const KeptRun& run, const Window& window);
  void follow_growth(const LocalView& view, const std::vector<StepFloor>& floors, std::size_t end);
  void follow_tags(const LocalView& view, const Window& window);
  void follow_repetitions(const KeptRun& run, const LocalView& view, const Window& window);
  void note_fates(const KeptRun& run, const LocalView& view);
  void finish(const KeptRun& run, const LocalView& view);

  const Store& store_;
  Result result_;
  LabelSurvey labels_;
  FloorFinder floors_;
  RepetitionCandidates repetitions_;
  std::size_t floors_done_ = 0;
  bool has_marked_steps_ = false;
  bool is_kind_settled_ = false;
  std::uint32_t last_read_ = 0;  // events that were read at the window before
  EarlierRequests requests_;
  std::vector<PlacedSample> samples_;
  std::size_t next_sample_ = 0;
  SeenCode seen_;
  OutsideCode outside_code_;
  std::map<std::uint32_t, std::size_t> tag_places_;
  std::vector<std::int64_t> tag_bytes_;
};

}  // namespace gpumemprof
