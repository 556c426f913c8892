#include "analysis/sources/measured.h"

#include <algorithm>
#include <set>

#include "analysis/code/code_kind.h"
#include "base/flat_map.h"

namespace gpumemprof {
namespace {

// Follows the allocations through the events, and assigns labels to each.
class Labeller {
 public:
  Labeller(const Store& store, const DeviceRecord& record, AllocationLabels& labels)
      : store_(store),
        allocations_(record.allocations),
        labels_(labels),
        kinds_(code_kinds(store)) {
    ranks_.resize(allocations_.size(), kNoRank);
    // A forged file could repeat a large set forever; a real one has few more label entries than
    // events.
    std::uint64_t defined = 0;
    for (std::uint32_t set = 0; set < store.label_set_count(); ++set)
      defined += store.label_set(set).size();
    budget_ = (std::uint64_t{1} << 24) + 64 * (record.events.size() + defined);
    last_births_.resize(store.label_set_count(), kNeverApplied);
  }

  void apply(const Labelling& labelling) {
    while (next_birth_ < allocations_.size() && is_born(next_birth_, labelling.before_event)) {
      rows_.insert_or_assign(allocations_.address[next_birth_],
                             static_cast<std::uint32_t>(next_birth_));
      ++next_birth_;
    }
    // No allocations since this set was last applied: it has nothing to add.
    std::size_t& births = last_births_[labelling.set];
    if (births == next_birth_) return;
    births = next_birth_;
    const std::span<const Label> set = store_.label_set(labelling.set);
    if (set.size() > budget_) return;
    budget_ -= set.size();
    for (const Label& label : set) apply(label, labelling.before_event);
  }

  void name(std::size_t row, const LateLabel& label) {
    // Later labels count more: the program may know better by then.
    if (label_rank(label.kind) < ranks_[row]) return;
    ranks_[row] = static_cast<std::int8_t>(label_rank(label.kind));
    labels_.source[row] = source_of_label(label.kind);
    labels_.flags[row] = static_cast<std::uint8_t>(
        AllocationLabels::kMeasured |
        (label.kind == LabelKind::buffer ? AllocationLabels::kBuffer : 0));
    labels_.name[row] = label.name;
  }

 private:
  static constexpr std::int8_t kNoRank = -1;
  static constexpr std::size_t kNeverApplied = static_cast<std::size_t>(-1);

  [[nodiscard]] bool is_born(std::size_t row, std::uint32_t before_event) const {
    const std::uint32_t birth = allocations_.alloc_event[row];
    return birth == kNoEvent || birth < before_event;
  }

  void apply(const Label& label, std::uint32_t before_event) {
    if (label.address == FlatMap<std::uint32_t>::kEmpty) return;
    const std::uint32_t* row = rows_.find(label.address);
    if (row == nullptr) return;
    const std::uint32_t death = allocations_.free_requested_event[*row];
    if (death != kNoEvent && death < before_event) return;
    if (label.kind == LabelKind::input && is_output(*row)) return;
    name(*row, {label.kind, label.name});
  }

  [[nodiscard]] bool is_output(std::size_t row) const {
    const StackId stack = allocations_.stack[row];
    return !stack.is_none() && is_made_by_model(kinds_[stack.index]);
  }

  const Store& store_;
  const AllocationColumns& allocations_;
  AllocationLabels& labels_;
  std::vector<CodeKind> kinds_;  // by stack
  FlatMap<std::uint32_t> rows_;  // address → the newest allocation there
  std::size_t next_birth_ = 0;
  Column<std::int8_t> ranks_;
  std::vector<std::size_t> last_births_;  // by set: allocations that existed when it was applied
  std::uint64_t budget_ = 0;
};

// The phase of each event, queried in any order, but mostly for one near the last.
class PhaseRuns {
 public:
  explicit PhaseRuns(const std::vector<PhaseSpan>& spans) {
    for (const PhaseSpan& span : spans) {
      if (!phases_.empty() && phases_.back() == span.phase) continue;
      firsts_.push_back(span.first_event);
      phases_.push_back(span.phase);
    }
  }

  [[nodiscard]] bool empty() const { return firsts_.empty(); }
  [[nodiscard]] std::size_t run_of(std::uint32_t event) const {
    if (is_in(last_, event)) return last_;
    if (is_in(last_ + 1, event)) return ++last_;
    const auto after = std::upper_bound(firsts_.begin(), firsts_.end(), event);
    last_ = after == firsts_.begin() ? 0 : static_cast<std::size_t>(after - firsts_.begin()) - 1;
    return last_;
  }
  [[nodiscard]] Phase phase(std::size_t run) const { return phases_[run]; }

 private:
  [[nodiscard]] bool is_in(std::size_t run, std::uint32_t event) const {
    return run < firsts_.size() && firsts_[run] <= event &&
           (run + 1 == firsts_.size() || event < firsts_[run + 1]);
  }

  std::vector<std::uint32_t> firsts_;
  std::vector<Phase> phases_;
  mutable std::size_t last_ = 0;
};

// By the innermost frame: hooks may appear between the outer ones at the first steps only.
std::uint32_t place_of_buffer(const Store& store, StackId stack) {
  return store.stacks().frame(stack).index;
}

LabelledPlaces find_places(const Store& store, const DeviceRecord& record, const PhaseRuns& runs,
                           const AllocationLabels& labels) {
  const AllocationColumns& allocations = record.allocations;
  LabelledPlaces places;
  for (std::size_t row = 0; row < allocations.size(); ++row) {
    const StackId stack = allocations.stack[row];
    if (!labels.is_measured(row) || stack.is_none()) continue;
    if (labels.source[row] == MemorySource::inputs)
      places.inputs.insert_or_assign(stack.index, labels.name[row]);
    const std::uint32_t birth = allocations.alloc_event[row];
    if ((labels.flags[row] & AllocationLabels::kBuffer) == 0 || birth == kNoEvent || runs.empty() ||
        runs.phase(runs.run_of(birth)) != Phase::forward)
      continue;
    places.buffers.insert_or_assign(place_of_buffer(store, stack),
                                    {labels.name[row], allocations.requested_bytes[row]});
  }
  return places;
}

void extend_inputs(const DeviceRecord& record, const LabelledPlaces& places,
                   AllocationLabels& labels) {
  const AllocationColumns& allocations = record.allocations;
  if (places.inputs.size() == 0) return;
  for (std::size_t row = 0; row < allocations.size(); ++row) {
    if (labels.is_measured(row) || allocations.stack[row].is_none()) continue;
    const StringId* name = places.inputs.find(allocations.stack[row].index);
    if (name == nullptr) continue;
    labels.source[row] = MemorySource::inputs;
    labels.name[row] = *name;
  }
}

// What a part shows counts more than what the start of its run does.
void add_missing(const LabelledPlaces& start, LabelledPlaces& places) {
  const auto add = [](const auto& from, auto& to) {
    from.for_each([&](std::uint64_t key, const auto& value) {
      if (to.find(key) == nullptr) to.insert_or_assign(key, value);
    });
  };
  add(start.inputs, places.inputs);
  add(start.buffers, places.buffers);
}

// A buffer that every forward reallocates is labelled at some steps only. Its successors are
// allocated at the same place with the same size, and freed by a forward, not by backward.
void extend_buffers(const Store& store, const DeviceRecord& record, const PhaseRuns& runs,
                    const LabelledPlaces& places, AllocationLabels& labels) {
  const AllocationColumns& allocations = record.allocations;
  if (places.buffers.size() == 0) return;
  for (std::size_t row = 0; row < allocations.size(); ++row) {
    if (labels.is_measured(row) || labels.source[row] != MemorySource::activations ||
        allocations.stack[row].is_none())
      continue;
    const LabelledPlaces::Buffer* like =
        places.buffers.find(place_of_buffer(store, allocations.stack[row]));
    const std::uint32_t death = allocations.free_requested_event[row];
    if (like == nullptr || like->requested_bytes != allocations.requested_bytes[row] ||
        (death != kNoEvent && runs.phase(runs.run_of(death)) == Phase::backward))
      continue;
    labels.source[row] = MemorySource::parameters;
    labels.flags[row] = AllocationLabels::kBuffer;
    labels.name[row] = like->name;
  }
}

}  // namespace

LabelledPlaces labelled_places(const Store& store, const DeviceRecord& record,
                               const std::vector<PhaseSpan>& spans) {
  if (record.labels.name.empty()) return {};
  return find_places(store, record, PhaseRuns(spans), record.labels);
}

MemorySource source_of_label(LabelKind kind) {
  switch (kind) {
    case LabelKind::parameter:
    case LabelKind::buffer:
      return MemorySource::parameters;
    case LabelKind::gradient:
      return MemorySource::gradients;
    case LabelKind::optimizer_state:
      return MemorySource::optimizer_state;
    case LabelKind::input:
      break;
  }
  return MemorySource::inputs;
}

bool is_made_by_model(CodeKind kind) {
  return kind == CodeKind::forward || is_in_backward(kind) || kind == CodeKind::optimizer_step;
}

bool take_labels(const Store& store, const DeviceRecord& record, const KnownLabels* known,
                 AllocationLabels& labels) {
  if (record.labellings.empty() && known == nullptr) return false;
  if (labels.name.empty()) labels.name.resize(record.allocations.size(), StringId());
  Labeller labeller(store, record, labels);
  std::uint32_t last = 0;
  for (const Labelling& labelling : record.labellings) {
    // Out of order in a damaged file: earlier events cannot be revisited.
    if (labelling.before_event < last) continue;
    last = labelling.before_event;
    labeller.apply(labelling);
  }
  if (known == nullptr) return true;
  for (const KnownLabels::Late& late : known->late) labeller.name(late.row, late.label);
  return true;
}

void settle_by_labels(const Store& store, const DeviceRecord& record,
                      const std::vector<PhaseSpan>& spans, const KnownLabels* known,
                      AllocationLabels& labels) {
  if (record.labellings.empty() && known == nullptr) return;
  const PhaseRuns runs(spans);
  const bool is_found_here = known == nullptr || known->is_of_start;
  LabelledPlaces found;
  if (is_found_here) found = find_places(store, record, runs, labels);
  if (is_found_here && known != nullptr) add_missing(*known->places, found);
  const LabelledPlaces& places = is_found_here ? found : *known->places;
  extend_inputs(record, places, labels);
  if (runs.empty()) return;
  extend_buffers(store, record, runs, places, labels);
  const AllocationColumns& allocations = record.allocations;
  for (std::size_t row = 0; row < allocations.size(); ++row) {
    const std::uint32_t birth = allocations.alloc_event[row];
    if (labels.is_measured(row) || birth == kNoEvent) continue;
    const std::uint32_t death = allocations.free_requested_event[row];
    const std::size_t born_in = runs.run_of(birth);
    const bool is_gone_with_its_phase = death != kNoEvent && runs.run_of(death) == born_in;
    const bool is_kept_by_forward =
        runs.phase(born_in) == Phase::forward && !is_gone_with_its_phase;
    // Backward uses at once what it recomputes.
    const bool is_recomputed = runs.phase(born_in) == Phase::backward && is_gone_with_its_phase;
    const MemorySource source = labels.source[row];
    if ((source == MemorySource::temporaries && is_gone_with_its_phase) ||
        (source == MemorySource::activations && (is_kept_by_forward || is_recomputed))) {
      labels.flags[row] =
          static_cast<std::uint8_t>(labels.flags[row] | AllocationLabels::kMeasured);
    }
  }
}

std::vector<MarkedStep> marked_optimizer_steps(const DeviceRecord& record) {
  std::vector<MarkedStep> steps;
  bool is_open = false;
  for (const PhaseMark& mark : record.phase_marks) {
    if (mark.kind == PhaseMark::Kind::optimizer_start) {
      if (!is_open) steps.push_back({mark.before_event, mark.before_event});
      is_open = true;
    } else if (mark.kind == PhaseMark::Kind::optimizer_end && is_open) {
      steps.back().end_event = std::max(steps.back().first_event, mark.before_event);
      is_open = false;
    }
  }
  // A step that never ended: an exception, or a truncated file.
  if (is_open) steps.back().end_event = static_cast<std::uint32_t>(record.events.size());
  return steps;
}

std::vector<std::uint32_t> marked_step_begins(const DeviceRecord& record) {
  std::vector<std::uint32_t> begins;
  for (const PhaseMark& mark : record.phase_marks) {
    if (mark.kind == PhaseMark::Kind::step_start) begins.push_back(mark.before_event);
  }
  return begins;
}

std::vector<std::uint32_t> marked_step_ends(const DeviceRecord& record) {
  std::vector<std::uint32_t> ends;
  std::set<std::uint32_t> stepped;  // the optimizers that stepped since the last one ended
  std::uint32_t last_end = 0;
  for (const PhaseMark& mark : record.phase_marks) {
    if (mark.kind == PhaseMark::Kind::optimizer_end) last_end = mark.before_event;
    if (mark.kind != PhaseMark::Kind::optimizer_start || stepped.insert(mark.number).second)
      continue;
    ends.push_back(last_end);
    stepped = {mark.number};
  }
  if (!stepped.empty()) ends.push_back(last_end);
  return ends;
}

}  // namespace gpumemprof
