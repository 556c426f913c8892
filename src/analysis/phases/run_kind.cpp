#include "analysis/phases/run_kind.h"

#include <algorithm>
#include <map>

#include "analysis/sources/cache_code.h"
#include "analysis/sources/workspace.h"

namespace gpumemprof {
namespace {

bool trains(CodeKind kind) {
  switch (kind) {
    case CodeKind::backward:
    case CodeKind::recompute:
    case CodeKind::optimizer_step:
    case CodeKind::optimizer_setup:
    case CodeKind::zero_grad:
      return true;
    default:
      return false;
  }
}

// By stack. Checkpointing saves nothing if there is no backward.
std::vector<bool> checkpointed_stacks(const Store& store) {
  const StackTrie& stacks = store.stacks();
  std::vector<bool> found;
  found.reserve(stacks.size());
  for (std::size_t index = 0; index < stacks.size(); ++index) {
    const Frame& frame = store.frame(stacks.frame(StackId(index)));
    const StackId caller = stacks.caller(StackId(index));
    found.push_back(store.text(frame.file).ends_with("torch/utils/checkpoint.py") ||
                    (!caller.is_none() && found[caller.index]));
  }
  return found;
}

bool has_training_labels(const Store& store, const DeviceRecord& record) {
  std::vector<bool> is_seen(store.label_set_count(), false);
  for (const Labelling& labelling : record.labellings) {
    if (labelling.set >= is_seen.size() || is_seen[labelling.set]) continue;
    is_seen[labelling.set] = true;
    for (const Label& label : store.label_set(labelling.set)) {
      if (label.kind == LabelKind::gradient || label.kind == LabelKind::optimizer_state)
        return true;
    }
  }
  return false;
}

bool has_training_marks(const Store& store, const DeviceRecord& record) {
  for (const PhaseMark& mark : record.phase_marks) {
    if (mark.kind != PhaseMark::Kind::step_start) return true;
  }
  return std::any_of(store.annotations().begin(), store.annotations().end(),
                     [&](const Annotation& annotation) {
                       return annotation.device == record.device &&
                              store.text(annotation.name).starts_with("Optimizer.");
                     });
}

bool has_training_code(const Store& store, const DeviceRecord& record,
                       const std::vector<CodeKind>& kinds) {
  const std::vector<bool> is_checkpointed = checkpointed_stacks(store);
  for (std::size_t event = 0; event < record.events.size(); ++event) {
    const StackId stack = record.events.stack[event];
    if (stack.is_none()) continue;
    if (trains(kinds[stack.index]) || is_checkpointed[stack.index]) return true;
  }
  return false;
}

// The share of what forward had allocated by the end of the work, or when memory ran out, that it
// still held: small if every layer's output is dropped, large if a backward is still to come. What
// cuBLAS holds is no output.
bool keeps_what_it_makes(const Store& store, const DeviceRecord& record,
                         const std::vector<CodeKind>& kinds,
                         const std::vector<ForwardCall>& calls) {
  std::uint32_t moment = calls.back().last_event;
  for (std::uint32_t event = 0; event < record.events.size(); ++event) {
    if (record.events.action[event] != Action::oom) continue;
    moment = event;
    break;
  }
  const CacheCode caches(store);
  const AllocationColumns& rows = record.allocations;
  std::uint64_t made_bytes = 0;
  std::uint64_t held_bytes = 0;
  std::map<std::uint64_t, std::uint32_t> workspaces;  // by size
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const std::uint32_t birth = rows.alloc_event[row];
    const StackId stack = rows.stack[row];
    if (birth == kNoEvent || birth > moment || stack.is_none()) continue;
    if (kinds[stack.index] != CodeKind::forward || caches.holds(record, row)) continue;
    const std::uint64_t bytes = rows.requested_bytes[row];
    const bool is_held = rows.free_requested_event[row] > moment;
    if (is_held && is_usual_workspace(bytes) && workspaces[bytes]++ < kUsualWorkspaces) continue;
    made_bytes += bytes;
    if (is_held) held_bytes += bytes;
  }
  constexpr std::uint64_t kParts = 10;
  constexpr std::uint64_t kMuch = 3;
  return held_bytes / kMuch >= made_bytes / kParts;
}

}  // namespace

// The outermost forward code of a stack is the model, and the line is its caller.
std::vector<StackId> callers_of_forward(const StackTrie& stacks,
                                        const std::vector<CodeKind>& kinds) {
  std::vector<StackId> sites(stacks.size());
  std::vector<bool> is_inside(stacks.size(), false);
  for (std::size_t index = 0; index < stacks.size(); ++index) {
    const StackId caller = stacks.caller(StackId(index));
    const bool is_caller_inside = !caller.is_none() && is_inside[caller.index];
    is_inside[index] = is_caller_inside || kinds[index] == CodeKind::forward;
    if (is_inside[index]) sites[index] = is_caller_inside ? sites[caller.index] : caller;
  }
  return sites;
}

std::vector<ForwardCall> find_forward_calls(const Store& store, const DeviceRecord& record,
                                            const std::vector<CodeKind>& kinds) {
  const std::vector<StackId> sites = callers_of_forward(store.stacks(), kinds);
  std::vector<ForwardCall> calls;
  bool is_open = false;
  for (std::uint32_t event = 0; event < record.events.size(); ++event) {
    const StackId stack = record.events.stack[event];
    if (record.events.action[event] != Action::alloc || stack.is_none()) continue;
    const bool is_forward = kinds[stack.index] == CodeKind::forward;
    if (is_forward) {
      const StackId site = sites[stack.index];
      if (!is_open || calls.back().site != site) calls.push_back({event, event, site});
      calls.back().last_event = event;
    }
    is_open = is_forward;
  }
  return calls;
}

std::ptrdiff_t call_at(const std::vector<ForwardCall>& calls, std::uint32_t event) {
  const auto after = std::upper_bound(
      calls.begin(), calls.end(), event,
      [](std::uint32_t at, const ForwardCall& call) { return at < call.first_event; });
  return after - calls.begin() - 1;
}

RunKind find_run_kind(const Store& store, const DeviceRecord& record,
                      const std::vector<PhaseSpan>& spans) {
  const bool has_training_phase =
      std::any_of(spans.begin(), spans.end(), [](const PhaseSpan& span) {
        return span.phase == Phase::backward || span.phase == Phase::optimizer_step;
      });
  if (has_training_phase || has_training_marks(store, record) || has_training_labels(store, record))
    return RunKind::training;
  const std::vector<CodeKind> kinds = code_kinds(store);
  if (has_training_code(store, record, kinds)) return RunKind::training;
  const std::vector<ForwardCall> calls = find_forward_calls(store, record, kinds);
  if (calls.empty() || keeps_what_it_makes(store, record, kinds, calls)) return RunKind::unknown;
  return RunKind::inference;
}

}  // namespace gpumemprof
