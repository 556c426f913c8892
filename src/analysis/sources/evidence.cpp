#include "analysis/sources/evidence.h"

#include "analysis/code/user_frame.h"

namespace gpumemprof {
namespace {

CodeKind kind_by_phase(Phase phase) {
  switch (phase) {
    case Phase::forward:
      return CodeKind::forward;
    case Phase::backward:
      return CodeKind::backward;
    case Phase::optimizer_step:
      return CodeKind::optimizer_step;
    case Phase::evaluation:
      return CodeKind::forward;
    case Phase::other:
      break;
  }
  return CodeKind::none;
}

}  // namespace

Evidence::Evidence(const Store& store, const DeviceRecord& record,
                   const std::vector<PhaseSpan>& spans, const AllocationLabels& labels)
    : Lifetimes(store, record, spans),
      has_libraries_(store.origin().device_type != "cpu"),
      known_labels_(labels) {
  look_at_births();
  look_at_gradients();
}

CodeKind Evidence::find_kind(std::size_t row) const {
  const StackId stack = rows_.stack[row];
  const CodeKind kind = stack.is_none() ? CodeKind::none : kinds_of_stacks_[stack.index];
  if (is_from_before(row)) return kind;
  const Phase phase = spans_.phase(run_of(row));
  if (kind == CodeKind::none) {
    // If stacks are recorded, only autograd's own threads have none.
    return stacks_.requests ? CodeKind::backward : kind_by_phase(phase);
  }
  return kind == CodeKind::plain && phase == Phase::optimizer_step ? CodeKind::optimizer_step
                                                                   : kind;
}

bool Evidence::may_be_parameter(std::size_t row) const {
  switch (kind(row)) {
    case CodeKind::none:
    case CodeKind::plain:
    case CodeKind::constructor:
      break;
    default:
      return false;
  }
  if (is_from_before(row)) return lasts(row);
  const std::size_t run = run_of(row);
  return birth(row) < first_backward_ && spans_.phase(run) == Phase::other &&
         (lasts(row) || outlives_iteration(row, run));
}

void Evidence::look_at_births() {
  kinds_.reserve(rows_.size());
  for (std::size_t row = 0; row < rows_.size(); ++row) {
    kinds_.push_back(find_kind(row));
    is_joined_late_ = is_joined_late_ || (is_from_before(row) && lasts(row));
    if (known_labels_.is_measured(row)) {
      if (known_labels_.source[row] == MemorySource::parameters) count_parameter(row);
      if (known_labels_.source[row] == MemorySource::gradients) has_measured_gradients_ = true;
    } else if (kind(row) == CodeKind::make_parameters) {
      count_parameter(row);
    } else if (may_be_parameter(row)) {
      ++sizes_.at(size(row)).possible;
    }
  }
}

void Evidence::count_parameter(std::size_t row) {
  has_made_parameters_ = true;
  // Weights that were converted before training never had a gradient.
  if (first_backward_ != kNoEvent && death(row) < first_backward_) return;
  SizeInfo& info = sizes_.at(size(row));
  ++info.made;
  if (!lasts(row)) info.parameter_deaths.push_back(death(row));
}

// How many gradients of each size are live at once; whether zeroing keeps them.
void Evidence::look_at_gradients() {
  count_kept_gradients();
  for (std::size_t row = 0; row < rows_.size(); ++row) {
    const bool is_of_before = kind(row) == CodeKind::none && is_zeroed(row);
    if (!is_of_before && !is_gradient(row)) continue;
    // Those that are zeroed together were live together, whichever backward allocated them.
    const std::size_t generation =
        is_zeroed(row) ? spans_.count() + zeroing_at(death(row)) : run_of(row);
    sizes_.at(size(row)).count_gradient(generation);
    has_gradients_in_steps_ = has_gradients_in_steps_ || lives_through_next_step(row);
  }
}

void Evidence::count_kept_gradients() {
  std::uint64_t kept_bytes = 0;
  std::uint64_t dropped_bytes = 0;
  for (std::size_t row = 0; row < rows_.size(); ++row) {
    if (kind(row) == CodeKind::optimizer_step && is_state(row)) {
      if (SizeInfo* info = sizes_.find(size(row))) ++info->states_born;
    }
    if (kind(row) != CodeKind::backward || is_from_before(row)) continue;
    const std::size_t run = run_of(row);
    SizeInfo* info = sizes_.find(size(row));
    if (info == nullptr || !survives_backward(row, run)) continue;
    if (next_backward(run) == spans_.count()) continue;
    if (outlives_next_backward(row, run)) {
      kept_bytes += size(row);
      ++info->kept_gradients;
    } else {
      dropped_bytes += size(row);
      info->has_dropped_gradients = true;
    }
  }
  keeps_gradients_ = kept_bytes > dropped_bytes;
}

bool Evidence::is_gradient(std::size_t row) {
  if (kind(row) != CodeKind::backward || is_from_before(row)) return false;
  const std::size_t run = run_of(row);
  if (!survives_backward(row, run)) return is_zeroed(row);
  const SizeInfo* info = sizes_.find(size(row));
  const bool fits = info != nullptr && info->made + info->possible > 0;
  if (fits)
    return keeps_gradients_ || info->keeps_gradients() || is_zeroed(row) ||
           !outlives_next_backward(row, run);
  if (stays(row) || may_be_cleared_workspace(row)) return false;
  return is_zeroed(row) || lives_through_a_step(row, run);
}

bool Evidence::may_be_cleared_workspace(std::size_t row) const {
  if (!may_be_workspace(row) || is_from_before(row) || stays(row) || is_zeroed(row)) return false;
  if (outlives_iteration(row, run_of(row))) return true;
  // Gradients of the last step are live until then as well: here, none has the size of a parameter.
  return lasts(row) && (kind(row) != CodeKind::backward || has_made_parameters_);
}

bool Evidence::is_state(std::size_t row) const {
  if (is_from_before(row)) return false;
  const std::size_t run = run_of(row);
  if (death(row) < spans_.end(run)) return false;
  // Without stacks for frees the end of the step is not sharp.
  return stays(row) || stacks_.frees || death(row) > next_work(run);
}

const Evidence::StackFacts& Evidence::facts_of(std::size_t row) {
  if (facts_.empty()) find_stack_facts();
  return facts_[rows_.stack[row].index];
}

void Evidence::find_stack_facts() {
  const StackTrie& stacks = store_.stacks();
  facts_.reserve(stacks.size());
  for (std::size_t index = 0; index < stacks.size(); ++index) {
    const FrameId id = stacks.frame(StackId(index));
    const Frame& frame = store_.frame(id);
    const StackId caller = stacks.caller(StackId(index));
    StackFacts facts = caller.is_none() ? StackFacts() : facts_[caller.index];
    if (store_.text(frame.name).ends_with("__init__")) facts.constructor_file = frame.file;
    const std::string_view file = store_.text(frame.file);
    if (is_python(store_, id)) facts.is_users_own = !is_library_file(file);
    if (is_users_native(file)) facts.is_users_own = true;
    facts_.push_back(facts);
  }
}

}  // namespace gpumemprof
