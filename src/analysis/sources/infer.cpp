#include "analysis/sources/infer.h"

#include <algorithm>
#include <array>

#include "analysis/sources/evidence.h"
#include "analysis/sources/kv_cache.h"
#include "analysis/sources/source_claims.h"
#include "analysis/sources/workspace.h"
#include "base/bytes.h"

namespace gpumemprof {
namespace {

class Inference : private Evidence {
 public:
  Inference(const Store& store, const DeviceRecord& record, const std::vector<PhaseSpan>& spans,
            RunKind kind, AllocationLabels& labels)
      : Evidence(store, record, spans, labels),
        labels_(labels),
        claims_(store),
        is_inference_(kind == RunKind::inference) {
    if (is_inference_) is_cache_ = find_kv_cache(store, record);
  }

  void run() {
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      if (labels_.is_measured(row)) continue;
      labels_.source[row] =
          is_inference_ && is_cache_[row] ? MemorySource::kv_cache : source_of(row);
    }
    settle_lasting();
    give_to_claimants();
  }

 private:
  // The code that allocated says more than a guess from the lifetime.
  void give_to_claimants() {
    if (!claims_.has_any()) return;
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      const bool is_guess =
          memory_source_info(labels_.source[row]).evidence == SourceEvidence::weak;
      if (labels_.is_measured(row) || !is_guess || rows_.stack[row].is_none()) continue;
      labels_.source[row] = claims_.of(rows_.stack[row]).value_or(labels_.source[row]);
    }
  }

  // Rules, by the code that allocated.
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

  // Nothing is kept for a backward: the next layer uses what a layer allocates.
  MemorySource from_inference(std::size_t row) {
    if (!stays(row) && !may_be_cleared_workspace(row)) return MemorySource::activations;
    if (saw_forward(row)) return lasting(row);
    return may_be_workspace(row) ? MemorySource::workspace : MemorySource::activations;
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
    return kept_by_forward(row, run);
  }

  // Still live at the end: scratch memory of a library, or outputs the program holds.
  MemorySource kept_by_forward(std::size_t row, std::size_t run) {
    if (!stays(row) && !may_be_cleared_workspace(row)) return MemorySource::activations;
    const bool is_old = outlives_next_backward(row, next_backward(run));
    if (is_old) return lasting(row);
    return may_be_workspace(row) ? MemorySource::workspace : MemorySource::activations;
  }

  MemorySource from_recompute(std::size_t row) {
    const auto after =
        std::upper_bound(recomputes_.begin(), recomputes_.end(), birth(row),
                         [](std::uint32_t event, const Stretch& s) { return event < s.first; });
    if (after != recomputes_.begin() && death(row) <= std::prev(after)->last)
      return MemorySource::temporaries;
    return kept_by_forward(row, run_of(row));
  }

  MemorySource from_backward(std::size_t row) {
    const std::size_t run = run_of(row);
    if (is_gradient(row)) return MemorySource::gradients;
    if (!survives_backward(row, run)) return MemorySource::temporaries;
    if (saw_oom(row) && death(row) < next_work(run)) return MemorySource::temporaries;
    if (stays(row) || may_be_cleared_workspace(row)) {
      if (may_be_workspace(row)) return MemorySource::workspace;
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
    const bool saw_work = stays(row) || death(row) >= next_work(run_of(row));
    if (!saw_work || !lives_through_next_step(row)) return MemorySource::temporaries;
    // Gradients are copied into the buckets, or are views of them by the time of a step. Where
    // gradients are labelled, those views would have given the bucket its label by then.
    const bool would_be_labelled = has_measured_gradients_ && saw_step(row);
    return has_gradients_in_steps_ || would_be_labelled ? MemorySource::workspace
                                                        : MemorySource::gradients;
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
    if (may_be_workspace(row)) return MemorySource::workspace;
    return MemorySource::unknown;
  }

  // Allocated inside an operation and never freed, or when the work is done. Allocated once:
  // scratch memory of a library. Allocated again while the others are live: something the program
  // keeps.
  MemorySource lasting(std::size_t row) {
    const std::uint64_t key =
        (std::uint64_t{rows_.stack[row].index} << 32U) ^ (size(row) * 0x9E3779B97F4A7C15ULL >> 32U);
    Lasting& same = lasting_.find_or_insert(key, {});
    if (same.count == 0 || birth(row) < same.last_death) ++same.count;
    same.last_death = std::max(same.last_death, death(row));
    lasting_rows_.push_back({AllocationId(row), key});
    return MemorySource::workspace;
  }

  void settle_lasting() {
    for (const auto& [row, key] : lasting_rows_) {
      if (has_libraries_ && lasting_.find(key)->count <= kUsualWorkspaces) continue;
      labels_.source[row.index] =
          kind(row.index) == CodeKind::backward ? MemorySource::unknown : MemorySource::activations;
    }
    // A constructor that creates parameters also creates buffers.
    for (const AllocationId row : open_constructors_) {
      if (constructor_files_.find(facts_of(row.index).constructor_file.index) != nullptr)
        labels_.source[row.index] = MemorySource::parameters;
    }
  }

  struct Lasting {
    std::uint32_t count = 0;  // live at once
    std::uint32_t last_death = 0;
  };
  struct LastingRow {
    AllocationId row;
    std::uint64_t key = 0;
  };

  AllocationLabels& labels_;
  SourceClaims claims_;
  bool is_inference_ = false;
  std::vector<bool> is_cache_;  // by row; only for inference
  FlatMap<Lasting> lasting_;
  std::vector<LastingRow> lasting_rows_;
  std::vector<AllocationId> open_constructors_;
  FlatMap<bool> constructor_files_;  // of those that created a parameter
};

}  // namespace

void infer_sources(const Store& store, const DeviceRecord& record,
                   const std::vector<PhaseSpan>& spans, RunKind kind, AllocationLabels& labels) {
  Inference(store, record, spans, kind, labels).run();
}

}  // namespace gpumemprof
