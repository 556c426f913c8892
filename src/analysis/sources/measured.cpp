#include "analysis/sources/measured.h"

#include <algorithm>
#include <set>

#include "analysis/code/code_kind.h"
#include "base/flat_map.h"

namespace gpumemprof {
namespace {

MemorySource source_of(LabelKind kind) {
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

// If several labels name one allocation: what a module owns is a parameter even if it is fed to
// another as input, and stays one if a gradient is computed into it.
int rank(LabelKind kind) {
  switch (kind) {
    case LabelKind::parameter:
      return 4;
    case LabelKind::buffer:
      return 3;
    case LabelKind::gradient:
      return 2;
    case LabelKind::optimizer_state:
      return 1;
    case LabelKind::input:
      break;
  }
  return 0;
}

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
    for (const Label& label : set) name(label, labelling.before_event);
  }

 private:
  static constexpr std::int8_t kNoRank = -1;
  static constexpr std::size_t kNeverApplied = static_cast<std::size_t>(-1);

  [[nodiscard]] bool is_born(std::size_t row, std::uint32_t before_event) const {
    const std::uint32_t birth = allocations_.alloc_event[row];
    return birth == kNoEvent || birth < before_event;
  }

  void name(const Label& label, std::uint32_t before_event) {
    if (label.address == FlatMap<std::uint32_t>::kEmpty) return;
    const std::uint32_t* row = rows_.find(label.address);
    if (row == nullptr) return;
    const std::uint32_t death = allocations_.free_requested_event[*row];
    if (death != kNoEvent && death < before_event) return;
    if (label.kind == LabelKind::input && is_made_by_model(*row)) return;
    // Later labels count more: the program may know better by then.
    if (rank(label.kind) < ranks_[*row]) return;
    ranks_[*row] = static_cast<std::int8_t>(rank(label.kind));
    labels_.source[*row] = source_of(label.kind);
    labels_.flags[*row] = static_cast<std::uint8_t>(
        AllocationLabels::kMeasured |
        (label.kind == LabelKind::buffer ? AllocationLabels::kBuffer : 0));
    labels_.name[*row] = label.name;
  }

  // Outputs that are fed in again are not program data: a KV cache, what a generator produced for
  // its discriminator, features of a frozen model.
  [[nodiscard]] bool is_made_by_model(std::size_t row) const {
    const StackId stack = allocations_.stack[row];
    if (stack.is_none()) return false;
    const CodeKind kind = kinds_[stack.index];
    return kind == CodeKind::forward || is_in_backward(kind) || kind == CodeKind::optimizer_step;
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

void extend_inputs(const DeviceRecord& record, AllocationLabels& labels) {
  const AllocationColumns& allocations = record.allocations;
  FlatMap<std::uint32_t> names;  // stack → row of a labelled input allocated there
  for (std::size_t row = 0; row < allocations.size(); ++row) {
    if (labels.is_measured(row) && labels.source[row] == MemorySource::inputs &&
        !allocations.stack[row].is_none()) {
      names.insert_or_assign(allocations.stack[row].index, static_cast<std::uint32_t>(row));
    }
  }
  if (names.size() == 0) return;
  for (std::size_t row = 0; row < allocations.size(); ++row) {
    if (labels.is_measured(row) || allocations.stack[row].is_none()) continue;
    const std::uint32_t* like = names.find(allocations.stack[row].index);
    if (like == nullptr) continue;
    labels.source[row] = MemorySource::inputs;
    labels.name[row] = labels.name[*like];
  }
}

// A buffer that every forward reallocates is labelled at some steps only. Its successors are
// allocated at the same place with the same size, and freed by a forward, not by backward.
void extend_buffers(const Store& store, const DeviceRecord& record, const PhaseRuns& runs,
                    AllocationLabels& labels) {
  const AllocationColumns& allocations = record.allocations;
  // By the innermost frame: hooks may appear between the outer ones at the first steps only.
  const auto place = [&](std::size_t row) {
    return store.stacks().frame(allocations.stack[row]).index;
  };
  FlatMap<std::uint32_t> names;  // place → row of a labelled buffer allocated there in forward
  for (std::size_t row = 0; row < allocations.size(); ++row) {
    const std::uint32_t birth = allocations.alloc_event[row];
    if ((labels.flags[row] & AllocationLabels::kBuffer) == 0 || birth == kNoEvent ||
        allocations.stack[row].is_none() || runs.phase(runs.run_of(birth)) != Phase::forward)
      continue;
    names.insert_or_assign(place(row), static_cast<std::uint32_t>(row));
  }
  if (names.size() == 0) return;
  for (std::size_t row = 0; row < allocations.size(); ++row) {
    if (labels.is_measured(row) || labels.source[row] != MemorySource::activations ||
        allocations.stack[row].is_none())
      continue;
    const std::uint32_t* like = names.find(place(row));
    const std::uint32_t death = allocations.free_requested_event[row];
    if (like == nullptr || allocations.requested_bytes[*like] != allocations.requested_bytes[row] ||
        (death != kNoEvent && runs.phase(runs.run_of(death)) == Phase::backward))
      continue;
    labels.source[row] = MemorySource::parameters;
    labels.flags[row] = AllocationLabels::kBuffer;
    labels.name[row] = labels.name[*like];
  }
}

}  // namespace

bool take_labels(const Store& store, const DeviceRecord& record, AllocationLabels& labels) {
  if (record.labellings.empty()) return false;
  if (labels.name.empty()) labels.name.resize(record.allocations.size(), StringId());
  Labeller labeller(store, record, labels);
  std::uint32_t last = 0;
  for (const Labelling& labelling : record.labellings) {
    // Out of order in a damaged file: earlier events cannot be revisited.
    if (labelling.before_event < last) continue;
    last = labelling.before_event;
    labeller.apply(labelling);
  }
  return true;
}

void settle_by_labels(const Store& store, const DeviceRecord& record,
                      const std::vector<PhaseSpan>& spans, AllocationLabels& labels) {
  if (record.labellings.empty()) return;
  extend_inputs(record, labels);
  const PhaseRuns runs(spans);
  if (runs.empty()) return;
  extend_buffers(store, record, runs, labels);
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
