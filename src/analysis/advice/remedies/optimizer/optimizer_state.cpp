#include "analysis/advice/remedies/optimizer/optimizer_state.h"

#include <algorithm>
#include <map>

namespace gpumemprof {
namespace {

bool is_in_step(const RunFacts& facts, std::uint32_t row) {
  return facts.birth(row) != kNoEvent && facts.phase_at(facts.birth(row)) == Phase::optimizer_step;
}

bool is_step_temporary(const RunFacts& facts, const TimelineRow& row) {
  const bool is_kept = row.source == MemorySource::optimizer_state ||
                       row.source == MemorySource::workspace || row.death == kTimelineEnd;
  return row.origin != TimelineRow::kInserted && !is_kept && is_in_step(facts, row.origin);
}

// When state is allocated: at the first step, if the recording has it; earlier, if the recording
// began later.
TimelineKey birth_of_states(const Rewrite& rewrite) {
  bool is_from_before = false;
  bool is_born = false;
  for (const TimelineRow& row : rewrite.timeline.rows) {
    if (row.source != MemorySource::optimizer_state) continue;
    (row.birth == kTimelineStart ? is_from_before : is_born) = true;
  }
  const std::vector<EventRange>& steps = rewrite.facts.optimizer_steps();
  if (steps.empty() || (is_from_before && !is_born)) return kTimelineStart;
  return before_event(steps.front().first, 0);
}

void add_states(Rewrite& rewrite, TimelineKey birth, const std::vector<std::uint64_t>& sizes) {
  std::uint64_t order = 0;
  for (const std::uint64_t bytes : sizes) {
    const TimelineKey key = birth == kTimelineStart ? birth : birth + order++;
    if (bytes > 0) rewrite.timeline.insert(key, kTimelineEnd, bytes, MemorySource::optimizer_state);
  }
}

}  // namespace

void drop_step_temporaries(Rewrite& rewrite) {
  for (TimelineRow& row : rewrite.timeline.rows) {
    if (is_step_temporary(rewrite.facts, row)) row.size_bytes = 0;
  }
}

std::optional<std::string> no_step_temporaries(const AdvisedRun& run) {
  const std::vector<TimelineRow>& rows = run.recorded().rows;
  if (std::ranges::any_of(
          rows, [&](const TimelineRow& row) { return is_step_temporary(run.facts(), row); }))
    return std::nullopt;
  return "The optimizer's step allocates nothing beside its state, so there is nothing to save.";
}

void add_step_temporaries(Rewrite& rewrite, std::uint32_t count) {
  for (const EventRange& step : rewrite.facts.optimizer_steps()) {
    std::uint64_t order = kTimelineMaxOrder / 2;
    for (const std::uint64_t bytes : rewrite.facts.parameters()) {
      for (std::uint32_t index = 0; index < count; ++index)
        rewrite.timeline.insert(before_event(step.first, order + index),
                                before_event(step.first, order + count), bytes,
                                MemorySource::temporaries);
      order += count + 1;
    }
  }
}

bool has_second_moment(const RunFacts& facts) {
  return facts.states_per_parameter().value_or(2) > 1.5;
}

void drop_states(Rewrite& rewrite) {
  for (TimelineRow& row : rewrite.timeline.rows) {
    if (row.source == MemorySource::optimizer_state) row.size_bytes = 0;
  }
}

void replace_states(Rewrite& rewrite, const std::vector<std::uint64_t>& sizes) {
  const TimelineKey birth = birth_of_states(rewrite);
  drop_states(rewrite);
  add_states(rewrite, birth, sizes);
}

void keep_one_state(Rewrite& rewrite) {
  const TimelineKey birth = birth_of_states(rewrite);
  std::map<std::uint64_t, std::uint32_t> wanted;
  for (const std::uint64_t bytes : rewrite.facts.parameters()) ++wanted[bytes];
  for (TimelineRow& row : rewrite.timeline.rows) {
    if (row.source != MemorySource::optimizer_state) continue;
    const auto found = wanted.find(row.size_bytes);
    if (found == wanted.end() || found->second == 0 || row.death != kTimelineEnd) {
      row.size_bytes = 0;
    } else {
      --found->second;
    }
  }
  std::vector<std::uint64_t> missing;
  for (const auto& [bytes, count] : wanted) missing.insert(missing.end(), count, bytes);
  add_states(rewrite, birth, missing);
}

// bitsandbytes keeps the state of small parameters in fp32 and one scale per block of the rest.
std::vector<EightBitState> eight_bit_states(const RunFacts& facts) {
  constexpr std::uint64_t kSmallestElements = 4096;
  constexpr std::uint64_t kBlockElements = 256;
  std::vector<EightBitState> states;
  for (const std::uint64_t bytes : facts.parameters()) {
    const std::uint64_t elements = bytes / kFloatBytes;
    const std::uint64_t scales = (elements + kBlockElements - 1) / kBlockElements * kFloatBytes;
    if (elements < kSmallestElements) {
      states.push_back({elements, {bytes, bytes}});
    } else {
      states.push_back({elements, {elements, elements, scales, scales}});
    }
  }
  return states;
}

std::vector<std::uint64_t> sizes_of(const std::vector<EightBitState>& states) {
  std::vector<std::uint64_t> sizes;
  for (const EightBitState& state : states)
    sizes.insert(sizes.end(), state.sizes.begin(), state.sizes.end());
  return sizes;
}

}  // namespace gpumemprof
