// Evidence: what a device's history shows of the sizes, the kinds and the lifetimes of its
// allocations, gathered before any of them is given a source: the sizes of parameters, whether
// gradients are kept or dropped, which allocations are gradients or optimizer state.
#pragma once

#include <vector>

#include "analysis/code/code_kind.h"
#include "analysis/sources/lifetimes.h"
#include "analysis/sources/size_counts.h"
#include "analysis/sources/workspace.h"

namespace gpumemprof {

class Evidence : protected Lifetimes {
 protected:
  struct StackFacts {
    StringId constructor_file;  // of the innermost __init__
    bool is_users_own = false;  // the innermost Python frame is outside libraries
  };

  // All arguments must outlive it. Labels that the recording holds are read already.
  Evidence(const Store& store, const DeviceRecord& record, const std::vector<PhaseSpan>& spans,
           const AllocationLabels& labels);

  [[nodiscard]] CodeKind kind(std::size_t row) const { return kinds_[row]; }
  // Allocated before the first backward by code that may create parameters, and kept.
  [[nodiscard]] bool may_be_parameter(std::size_t row) const;
  // Born in backward and still live after it.
  [[nodiscard]] bool survives_backward(std::size_t row, std::size_t run) const {
    return death(row) >= spans_.end(run);
  }
  [[nodiscard]] bool is_gradient(std::size_t row);
  [[nodiscard]] bool is_state(std::size_t row) const;
  // As large as what torch gives cuBLAS. CPUs have no such libraries.
  [[nodiscard]] bool may_be_workspace(std::size_t row) const {
    return has_libraries_ && is_usual_workspace(size(row));
  }
  // The same, freed by the program when its work is done, or between two epochs.
  [[nodiscard]] bool may_be_cleared_workspace(std::size_t row) const;
  // All stacks are inspected when the first is requested.
  [[nodiscard]] const StackFacts& facts_of(std::size_t row);

  bool has_gradients_in_steps_ = false;  // in blocks of their own
  bool has_measured_gradients_ = false;
  bool has_made_parameters_ = false;
  bool has_libraries_ = false;
  bool is_joined_late_ = false;  // something long-lived existed before the history
  SizeCounts sizes_;

 private:
  [[nodiscard]] CodeKind find_kind(std::size_t row) const;
  void look_at_births();
  void count_parameter(std::size_t row);
  void look_at_gradients();
  void count_kept_gradients();
  void find_stack_facts();

  const AllocationLabels& known_labels_;
  Column<CodeKind> kinds_;  // by row
  bool keeps_gradients_ = false;
  std::vector<StackFacts> facts_;  // by stack; filled at the first request
};

}  // namespace gpumemprof
