// Lifetimes: what the events of a device say about the lifetimes of its allocations: which phases,
// steps, zeroings of gradients and errors each one saw. Drawing conclusions is left to infer.cpp.
//
// An allocation is its row; a run is an unbroken span of one phase (SpanIndex).
#pragma once

#include <algorithm>
#include <vector>

#include "analysis/code/code_kind.h"
#include "analysis/phases/event_stacks.h"
#include "analysis/phases/span_index.h"
#include "store/store.h"

namespace gpumemprof {

class Lifetimes {
 protected:
  // From its first event to its last.
  struct Stretch {
    std::uint32_t first = 0;
    std::uint32_t last = 0;
  };

  // All arguments must outlive it.
  Lifetimes(const Store& store, const DeviceRecord& record, const std::vector<PhaseSpan>& spans);

  [[nodiscard]] std::uint32_t birth(std::size_t row) const { return rows_.alloc_event[row]; }
  [[nodiscard]] std::uint32_t death(std::size_t row) const {
    return rows_.free_requested_event[row];
  }
  [[nodiscard]] std::uint64_t size(std::size_t row) const { return rows_.requested_bytes[row]; }
  [[nodiscard]] bool is_from_before(std::size_t row) const { return birth(row) == kNoEvent; }
  [[nodiscard]] bool stays(std::size_t row) const { return death(row) == kNoEvent; }
  // Live until the program's work is done, whether or not it ends with a teardown.
  [[nodiscard]] bool lasts(std::size_t row) const { return death(row) >= end_of_work_; }
  [[nodiscard]] std::size_t run_of(std::size_t row) const {
    return is_from_before(row) ? 0 : spans_.run_of(birth(row));
  }
  // Where the next backward after the row's birth begins, and the one after that.
  [[nodiscard]] std::size_t next_backward(std::size_t run) const {
    return run < spans_.count() ? spans_.next_backward(run) : run;
  }
  // Where the next iteration's work begins.
  [[nodiscard]] std::uint32_t next_work(std::size_t run) const {
    return std::min(spans_.start_of(spans_.next_forward(run)),
                    spans_.start_of(spans_.next_backward(run)));
  }
  [[nodiscard]] bool outlives_next_backward(std::size_t row, std::size_t run) const {
    const std::size_t next = next_backward(run);
    return next < spans_.count() && death(row) > spans_.first(next);
  }
  // Live for more than one iteration: for the second backward after its birth, and for the one
  // after the next optimizer step, since some iterations run backward several times.
  [[nodiscard]] bool outlives_iteration(std::size_t row, std::size_t run) const {
    if (!outlives_next_backward(row, next_backward(run))) return false;
    const std::size_t step = run < next_step_.size() ? next_step_[run] : spans_.count();
    if (step == spans_.count()) return true;
    return lasts(row) || outlives_next_backward(row, step);
  }
  // Freed where gradients are zeroed.
  [[nodiscard]] bool is_zeroed(std::size_t row) const {
    const std::uint32_t at = death(row);
    if (at >= events_.size()) return false;
    const StackId stack = events_.stack[at];
    if (stacks_.frees && !stack.is_none())
      return kinds_of_stacks_[stack.index] == CodeKind::zero_grad;
    const std::size_t zeroing = zeroing_at(at);
    return zeroing > 0 && at <= zeroings_[zeroing - 1].last;
  }
  // How many zeroings of gradients had begun by then.
  [[nodiscard]] std::size_t zeroing_at(std::uint32_t event) const {
    const auto after =
        std::upper_bound(zeroings_.begin(), zeroings_.end(), event,
                         [](std::uint32_t at, const Stretch& s) { return at < s.first; });
    return static_cast<std::size_t>(after - zeroings_.begin());
  }
  // Alive from before an optimizer's step until after it.
  [[nodiscard]] bool lives_through_a_step(std::size_t row, std::size_t run) const {
    for (std::size_t next = run + 1; next < spans_.count(); ++next) {
      const Phase phase = spans_.phase(next);
      if (phase == Phase::optimizer_step) return death(row) >= spans_.end(next);
      if (phase != Phase::other) return false;
    }
    return false;
  }
  // The same whatever happens in between, and also if the recording has no steps at all.
  [[nodiscard]] bool lives_through_next_step(std::size_t row) const {
    return next_step(row) == spans_.count() || saw_step(row);
  }
  // Live until an optimizer step after its birth was over.
  [[nodiscard]] bool saw_step(std::size_t row) const {
    const std::size_t step = next_step(row);
    return step < spans_.count() && death(row) >= spans_.end(step);
  }
  [[nodiscard]] std::size_t next_step(std::size_t row) const {
    return next_step_.empty() ? spans_.count() : next_step_[run_of(row)];
  }
  [[nodiscard]] bool saw_oom(std::size_t row) const {
    const auto oom = std::lower_bound(ooms_.begin(), ooms_.end(), birth(row));
    return oom != ooms_.end() && *oom < death(row);
  }
  // A forward began while the row was live: it may have read it.
  [[nodiscard]] bool saw_forward(std::size_t row) const {
    const auto after =
        std::upper_bound(forwards_.begin(), forwards_.end(), birth(row),
                         [](std::uint32_t event, const Stretch& s) { return event < s.first; });
    return after != forwards_.end() && after->first < death(row) &&
           after->first < spans_.end(run_of(row));
  }

  const Store& store_;
  const EventColumns& events_;
  const AllocationColumns& rows_;
  SpanIndex spans_;
  EventStacks stacks_;
  std::vector<CodeKind> kinds_of_stacks_;
  std::vector<std::size_t> next_step_;  // by run: the next optimizer step after it
  bool has_phases_ = false;
  std::uint32_t first_backward_ = kNoEvent;
  std::uint32_t end_of_work_ = 0;  // after the last phase
  std::vector<std::uint32_t> ooms_;
  std::vector<Stretch> recomputes_;

 private:
  void look_at_events();
  void look_at_annotations(DeviceIndex device);
  void look_at_spans();
  void note_zeroing(std::uint32_t event);
  void note_forward(std::uint32_t event, CodeKind kind);
  void note_recompute(std::uint32_t event, CodeKind kind);

  bool is_recomputing_ = false;
  bool is_zeroing_ = false;
  bool is_in_forward_ = false;
  std::vector<Stretch> forwards_;
  std::vector<Stretch> zeroings_;
};

}  // namespace gpumemprof
