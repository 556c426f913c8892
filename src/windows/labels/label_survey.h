// LabelSurvey: what the labels of a device say over the whole run, as far as a window of it does
// not show that: labels that come after the window of their allocation, and the places where
// labelled memory is allocated. Found on the first pass, for the second.
//
// Memory: the labels of what is live, one entry for each allocation whose label changes after its
// window, and one for each such place.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "analysis/code/code_kind.h"
#include "analysis/sources/measured.h"
#include "base/spill/spill_file.h"
#include "windows/device_pass.h"

namespace gpumemprof {

// The sets of labels of a run, numbered as they come. Recent ones are in memory, all are in a file.
class SurveyedLabelSets {
 public:
  void add(std::span<const Label> labels);
  // Valid until the next call.
  std::span<const Label> get(std::uint32_t set);

 private:
  struct Place {
    std::uint64_t offset = 0;
    std::uint32_t count = 0;
    bool is_in_memory = false;  // offset is a row of recent_
  };

  void forget();

  SpillFile file_;
  bool has_failed_ = false;  // the file; all stay in memory
  std::vector<Place> places_;
  std::vector<std::uint32_t> in_memory_;
  std::vector<Label> recent_;
  std::vector<Label> read_;
};

class LabelSurvey {
 public:
  // All must outlive it.
  LabelSurvey(const Store& store, SurveyedLabelSets& sets) : store_(store), sets_(sets) {}

  // Numbered by the sets above. After the events before it.
  void add(const Labelling& labelling) { pending_.push_back(labelling); }
  // `spans` cover the run up to the end of the window.
  void visit(const KeptRun& run, const LocalView& view, const Window& window,
             const std::vector<PhaseSpan>& spans);

  // After the last window. By KeptRun::key_of().
  [[nodiscard]] FlatMap<LateLabel> take_late() { return std::move(late_); }
  [[nodiscard]] LabelledPlaces take_places() { return std::move(places_); }

 private:
  void apply_pending(const KeptRun& run, const LocalView& view, const Window& window);
  void apply(const Labelling& labelling, const LocalView& view, const Window& window);
  void name(const Label& label, std::uint32_t before_event, const LocalView& view,
            const Window& window);
  [[nodiscard]] bool is_output(const DeviceRecord& record, std::size_t row);
  void note_places(const LocalView& view, const Window& window,
                   const std::vector<PhaseSpan>& spans);
  void note_place(const LocalView& view, std::size_t row, const LateLabel& label,
                  const std::vector<PhaseSpan>& spans);

  const Store& store_;
  SurveyedLabelSets& sets_;
  std::vector<Labelling> pending_;  // since the last window
  std::uint32_t last_position_ = 0;
  std::vector<std::uint32_t> last_applied_;  // by set: before which event
  std::uint64_t budget_ = std::uint64_t{1} << 24U;
  std::uint32_t events_ = 0;     // that were read at the last window
  FlatMap<std::uint32_t> rows_;  // address → the newest allocation there
  FlatMap<LateLabel> labels_;    // by key: of what may still get another one
  FlatMap<LateLabel> late_;
  LabelledPlaces places_;
  FlatMap<std::uint64_t> input_rows_;  // by stack, and by frame: the allocation that gave the name
  FlatMap<std::uint64_t> buffer_rows_;
  std::vector<CodeKind> kinds_;  // by stack
};

}  // namespace gpumemprof
