#include "analysis/sources/infer.h"

#include <algorithm>
#include <array>

#include "analysis/code/code_kind.h"
#include "analysis/code/user_frame.h"
#include "analysis/sources/kv_cache.h"
#include "analysis/sources/lifetimes.h"
#include "analysis/sources/size_counts.h"
#include "analysis/sources/workspace.h"
#include "base/bytes.h"

namespace gpumemprof {
namespace {

bool is_usual_workspace(std::uint64_t bytes) {
  return is_cublas_workspace(bytes) || is_cublaslt_workspace(bytes);
}

class Inference : private Lifetimes {
 public:
  Inference(const Store& store, const DeviceRecord& record, const std::vector<PhaseSpan>& spans,
            RunKind kind, AllocationLabels& labels)
      : Lifetimes(store, record, spans),
        labels_(labels),
        is_inference_(kind == RunKind::inference) {
    if (is_inference_) is_cache_ = find_kv_cache(store, record);
  }

  void run() {
    look_at_births();
    look_at_gradients();
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      if (labels_.is_measured(row)) continue;
      labels_.source[row] =
          is_inference_ && is_cache_[row] ? MemorySource::kv_cache : source_of(row);
    }
    settle_lasting();
  }

 private:
  // --- Evidence ---

  [[nodiscard]] CodeKind kind_by_phase(Phase phase) const {
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

  [[nodiscard]] CodeKind find_kind(std::size_t row) const {
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

  // Allocated before the first backward by code that may create parameters, and kept.
  [[nodiscard]] bool may_be_parameter(std::size_t row) const {
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

  [[nodiscard]] CodeKind kind(std::size_t row) const { return kinds_[row]; }

  void look_at_births() {
    kinds_.reserve(rows_.size());
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      kinds_.push_back(find_kind(row));
      is_joined_late_ = is_joined_late_ || (is_from_before(row) && lasts(row));
      if (labels_.is_measured(row)) {
        if (labels_.source[row] == MemorySource::parameters) count_parameter(row);
      } else if (kind(row) == CodeKind::make_parameters) {
        count_parameter(row);
      } else if (may_be_parameter(row)) {
        ++sizes_.at(size(row)).possible;
      }
    }
  }

  void count_parameter(std::size_t row) {
    has_made_parameters_ = true;
    // Weights that were converted before training never had a gradient.
    if (first_backward_ != kNoEvent && death(row) < first_backward_) return;
    SizeInfo& info = sizes_.at(size(row));
    ++info.made;
    if (!lasts(row)) info.parameter_deaths.push_back(death(row));
  }

  // Born in backward and still live after it.
  [[nodiscard]] bool survives_backward(std::size_t row, std::size_t run) const {
    return death(row) >= spans_.end(run);
  }

  // How many gradients of each size are live at once; whether zeroing keeps them.
  void look_at_gradients() {
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

  [[nodiscard]] bool is_gradient(std::size_t row) {
    if (kind(row) != CodeKind::backward || is_from_before(row)) return false;
    const std::size_t run = run_of(row);
    if (!survives_backward(row, run)) return is_zeroed(row);
    const SizeInfo* info = sizes_.find(size(row));
    const bool fits = info != nullptr && info->made + info->possible > 0;
    if (fits)
      return keeps_gradients_ || info->keeps_gradients() || is_zeroed(row) ||
             !outlives_next_backward(row, run);
    if (stays(row)) return false;
    return is_zeroed(row) || lives_through_a_step(row, run);
  }

  // --- Rules, by the code that allocated ---

  MemorySource source_of(std::size_t row) {
    if (is_from_before(row)) return from_before(row);
    switch (kind(row)) {
      case CodeKind::make_parameters:
        return MemorySource::parameters;
      case CodeKind::make_buckets:
        return from_buckets(row);
      case CodeKind::workspace:
        return MemorySource::workspace;
      case CodeKind::communicate:
        return death(row) < spans_.end(run_of(row)) ? MemorySource::temporaries
                                                    : MemorySource::workspace;
      case CodeKind::load_data:
        return MemorySource::inputs;
      case CodeKind::forward:
        return from_forward(row);
      case CodeKind::recompute:
        return from_recompute(row);
      case CodeKind::backward:
        return from_backward(row);
      case CodeKind::optimizer_step:
        return is_state(row) ? MemorySource::optimizer_state : MemorySource::temporaries;
      case CodeKind::optimizer_setup:
        return MemorySource::optimizer_state;
      case CodeKind::zero_grad:
      case CodeKind::plain:
      case CodeKind::constructor:
        return from_plain(row);
      case CodeKind::none:
        break;
    }
    return from_nowhere(row);
  }

  [[nodiscard]] bool is_state(std::size_t row) const {
    if (is_from_before(row)) return false;
    const std::size_t run = run_of(row);
    if (death(row) < spans_.end(run)) return false;
    // Without stacks for frees the end of the step is not sharp.
    return stays(row) || stacks_.frees || death(row) > next_work(run);
  }

  // Nothing is kept for a backward: the next layer uses what a layer allocates.
  MemorySource from_inference(std::size_t row) {
    if (!stays(row)) return MemorySource::activations;
    if (saw_forward(row)) return lasting(row);
    return is_usual_workspace(size(row)) ? MemorySource::workspace : MemorySource::activations;
  }

  MemorySource from_forward(std::size_t row) {
    if (is_inference_) return from_inference(row);
    const std::size_t run = run_of(row);
    const std::size_t backward = next_backward(run);
    if (backward == spans_.count()) {  // never reached
      if (saw_oom(row) && !stays(row)) return MemorySource::activations;
      if (death(row) < spans_.end(run)) return MemorySource::temporaries;
      return kept_by_forward(row, run);
    }
    if (death(row) < spans_.first(backward))
      return saw_oom(row) ? MemorySource::activations : MemorySource::temporaries;
    return stays(row) ? kept_by_forward(row, run) : MemorySource::activations;
  }

  // Still live at the end: scratch memory of a library, or outputs the program holds.
  MemorySource kept_by_forward(std::size_t row, std::size_t run) {
    if (!stays(row)) return MemorySource::activations;
    const bool is_old = outlives_next_backward(row, next_backward(run));
    if (is_old) return lasting(row);
    return is_usual_workspace(size(row)) ? MemorySource::workspace : MemorySource::activations;
  }

  MemorySource from_recompute(std::size_t row) {
    const auto after =
        std::upper_bound(recomputes_.begin(), recomputes_.end(), birth(row),
                         [](std::uint32_t event, const Stretch& s) { return event < s.first; });
    if (after != recomputes_.begin() && death(row) <= std::prev(after)->last)
      return MemorySource::temporaries;
    if (!stays(row)) return MemorySource::activations;
    return kept_by_forward(row, run_of(row));
  }

  MemorySource from_backward(std::size_t row) {
    const std::size_t run = run_of(row);
    if (is_gradient(row)) return MemorySource::gradients;
    if (!survives_backward(row, run)) return MemorySource::temporaries;
    if (saw_oom(row) && death(row) < next_work(run)) return MemorySource::temporaries;
    if (stays(row)) {
      if (is_usual_workspace(size(row))) return MemorySource::workspace;
      return outlives_next_backward(row, run) ? lasting(row) : MemorySource::unknown;
    }
    // Without stacks for frees the end of backward is not sharp.
    if (!stacks_.frees && death(row) < next_work(run)) return MemorySource::temporaries;
    return is_kept_for_another_backward(row, run) ? MemorySource::activations
                                                  : MemorySource::unknown;
  }

  // A backward that is itself differentiated, as for a penalty on gradients.
  [[nodiscard]] bool is_kept_for_another_backward(std::size_t row, std::size_t run) const {
    const std::size_t next = next_backward(run);
    return next < spans_.count() && next < next_step_[run] && death(row) > spans_.first(next) &&
           death(row) <= next_work(next);
  }

  MemorySource from_buckets(std::size_t row) {
    if (!stays(row) && death(row) < next_work(run_of(row))) return MemorySource::temporaries;
    // Gradients are copied into the buckets, or are views of them by the time of a step.
    return has_gradients_in_steps_ ? MemorySource::workspace : MemorySource::gradients;
  }

  MemorySource from_plain(std::size_t row) {
    const std::size_t run = run_of(row);
    if (!has_phases_) return MemorySource::unknown;
    switch (spans_.phase(run)) {
      case Phase::forward:
      case Phase::evaluation:
        return from_plain_forward(row, run);
      case Phase::backward:
        return survives_backward(row, run) ? MemorySource::inputs : MemorySource::temporaries;
      case Phase::optimizer_step:
      case Phase::other:
        break;
    }
    const std::uint32_t work = next_work(run);
    // Only gradients are freed there, whoever allocated them.
    if (is_zeroed(row) && lives_through_a_step(row, run)) return MemorySource::gradients;
    if (work == kNoEvent) return stays(row) ? MemorySource::unknown : MemorySource::temporaries;
    if (death(row) < work) return MemorySource::temporaries;
    if (may_be_parameter(row)) return kept_by_user(row);
    const bool is_old = outlives_iteration(row, run);
    SizeInfo* info = sizes_.find(size(row));
    if (is_old && info != nullptr && info->takes_over(birth(row), work))
      return MemorySource::parameters;
    // A user-written optimizer: as large as a parameter, and kept from step to step.
    if (is_old && birth(row) > first_backward_ && info != nullptr && info->gradients > 0)
      return MemorySource::optimizer_state;
    return MemorySource::inputs;
  }

  // User code inside forward: the loss, or another batch for another forward.
  MemorySource from_plain_forward(std::size_t row, std::size_t run) {
    const std::size_t backward = next_backward(run);
    const bool is_for_backward = backward < spans_.count() && death(row) > spans_.first(backward) &&
                                 death(row) < spans_.end(backward);
    if (is_for_backward) return MemorySource::activations;
    if (saw_forward(row)) return MemorySource::inputs;
    const std::uint32_t end = backward < spans_.count() ? spans_.first(backward) : spans_.end(run);
    return death(row) >= end || saw_oom(row) ? MemorySource::activations
                                             : MemorySource::temporaries;
  }

  // Allocated before training and kept: a parameter if backward allocates a gradient of its size.
  // Otherwise data, if a line of user code allocated it and nothing contradicts that.
  MemorySource kept_by_user(std::size_t row) {
    SizeInfo* info = sizes_.find(size(row));
    if (info != nullptr && info->takes_parameter(!labels_.has_recorded)) {
      if (kind(row) == CodeKind::constructor) note_constructor(row);
      return MemorySource::parameters;
    }
    if (kind(row) == CodeKind::constructor) {
      open_constructors_.push_back(AllocationId(row));
      return MemorySource::unknown;
    }
    const bool may_be_copy = info != nullptr && info->made > 0;
    const bool has_model = has_made_parameters_ || is_joined_late_ || sizes_.has_gradients();
    return may_be_copy || !has_model || !facts_of(row).is_users_own ? MemorySource::unknown
                                                                    : MemorySource::inputs;
  }

  struct StackFacts {
    StringId constructor_file;  // of the innermost __init__
    bool is_users_own = false;  // the innermost Python frame is outside libraries
  };
  // All stacks are inspected when the first is requested.
  [[nodiscard]] const StackFacts& facts_of(std::size_t row) {
    if (facts_.empty()) find_stack_facts();
    return facts_[rows_.stack[row].index];
  }
  void find_stack_facts() {
    const StackTrie& stacks = store_.stacks();
    facts_.reserve(stacks.size());
    for (std::size_t index = 0; index < stacks.size(); ++index) {
      const FrameId id = stacks.frame(StackId(index));
      const Frame& frame = store_.frame(id);
      const StackId caller = stacks.caller(StackId(index));
      StackFacts facts = caller.is_none() ? StackFacts() : facts_[caller.index];
      if (store_.text(frame.name).ends_with("__init__")) facts.constructor_file = frame.file;
      if (is_python(store_, id)) facts.is_users_own = !is_library_file(store_.text(frame.file));
      facts_.push_back(facts);
    }
  }
  void note_constructor(std::size_t row) {
    constructor_files_.find_or_insert(facts_of(row).constructor_file.index, true);
  }

  // Recorded without any stack and outside all phases.
  MemorySource from_nowhere(std::size_t row) {
    if (is_zeroed(row)) return MemorySource::gradients;
    SizeInfo* info = sizes_.find(size(row));
    if (info == nullptr || info->gradients == 0) return MemorySource::unknown;
    if (may_be_parameter(row) && info->takes_parameter()) return MemorySource::parameters;
    return lives_through_a_step(row, run_of(row)) ? MemorySource::gradients : MemorySource::unknown;
  }

  MemorySource from_before(std::size_t row) {
    switch (kind(row)) {
      case CodeKind::make_parameters:
        return MemorySource::parameters;
      case CodeKind::optimizer_step:
      case CodeKind::optimizer_setup:
        return MemorySource::optimizer_state;
      case CodeKind::workspace:
        return MemorySource::workspace;
      case CodeKind::load_data:
        return MemorySource::inputs;
      default:
        break;
    }
    SizeInfo* info = sizes_.find(size(row));
    if (!lasts(row)) {
      if (is_zeroed(row)) return MemorySource::gradients;
      if (spans_.phase(spans_.run_of(death(row))) == Phase::backward)
        return MemorySource::activations;
      // The history began inside a forward that ran out of memory: what was freed with it was its
      // own.
      const bool is_unwound = !ooms_.empty() && ooms_.front() < death(row) &&
                              spans_.phase(0) == Phase::forward && ooms_.front() <= spans_.end(0);
      return is_unwound ? MemorySource::activations : MemorySource::unknown;
    }
    if (may_be_parameter(row) && info != nullptr && info->gradients > 0) {
      if (info->takes_parameter()) return MemorySource::parameters;
      if (info->takes_state()) return MemorySource::optimizer_state;
    }
    if (is_usual_workspace(size(row))) return MemorySource::workspace;
    return MemorySource::unknown;
  }

  // Allocated inside an operation and never freed. Allocated once: scratch memory of a library.
  // Allocated repeatedly: something the program keeps.
  MemorySource lasting(std::size_t row) {
    const std::uint64_t key =
        (std::uint64_t{rows_.stack[row].index} << 32U) ^ (size(row) * 0x9E3779B97F4A7C15ULL >> 32U);
    ++lasting_.find_or_insert(key, 0);
    lasting_rows_.push_back({AllocationId(row), key});
    return MemorySource::workspace;
  }

  void settle_lasting() {
    constexpr std::uint32_t kFew = 2;  // one for each of two streams
    for (const auto& [row, key] : lasting_rows_) {
      if (*lasting_.find(key) <= kFew) continue;
      labels_.source[row.index] =
          kind(row.index) == CodeKind::backward ? MemorySource::unknown : MemorySource::activations;
    }
    // A constructor that creates parameters also creates buffers.
    for (const AllocationId row : open_constructors_) {
      if (constructor_files_.find(facts_of(row.index).constructor_file.index) != nullptr)
        labels_.source[row.index] = MemorySource::parameters;
    }
  }

  struct LastingRow {
    AllocationId row;
    std::uint64_t key = 0;
  };

  AllocationLabels& labels_;
  bool is_inference_ = false;
  std::vector<bool> is_cache_;  // by row; only for inference

  Column<CodeKind> kinds_;  // by row
  bool keeps_gradients_ = false;
  bool has_gradients_in_steps_ = false;  // in blocks of their own
  bool has_made_parameters_ = false;
  bool is_joined_late_ = false;  // something long-lived existed before the history
  SizeCounts sizes_;
  FlatMap<std::uint32_t> lasting_;
  std::vector<LastingRow> lasting_rows_;
  std::vector<AllocationId> open_constructors_;
  FlatMap<bool> constructor_files_;  // of those that created a parameter
  std::vector<StackFacts> facts_;    // by stack; filled at the first request
};

}  // namespace

void infer_sources(const Store& store, const DeviceRecord& record,
                   const std::vector<PhaseSpan>& spans, RunKind kind, AllocationLabels& labels) {
  Inference(store, record, spans, kind, labels).run();
}

}  // namespace gpumemprof
