// Other optimizers and other stepping modes.
#include <algorithm>
#include <map>

#include "analysis/advice/remedies/rewrite.h"

namespace gpumemprof {
namespace {

// bitsandbytes keeps the state of small parameters in fp32 and one scale per block of the rest.
constexpr std::uint64_t kSmallest8BitElements = 4096;
constexpr std::uint64_t kBlockElements = 256;
constexpr std::uint64_t kFloatBytes = 4;

bool is_in_step(const RunFacts& facts, std::uint32_t row) {
  return facts.birth(row) != kNoEvent && facts.phase_at(facts.birth(row)) == Phase::optimizer_step;
}

void drop_step_temporaries(Rewrite& rewrite) {
  const RunFacts& facts = rewrite.facts;
  for (TimelineRow& row : rewrite.timeline.rows) {
    if (row.origin == TimelineRow::kInserted) continue;
    const bool is_kept = row.source == MemorySource::optimizer_state ||
                         row.source == MemorySource::workspace || row.death == kTimelineEnd;
    if (!is_kept && is_in_step(facts, row.origin)) row.size_bytes = 0;
  }
}

// One parameter at a time, with `count` temporaries of its size live at once.
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

void drop_states(Rewrite& rewrite) {
  for (TimelineRow& row : rewrite.timeline.rows) {
    if (row.source == MemorySource::optimizer_state) row.size_bytes = 0;
  }
}

void add_states(Rewrite& rewrite, TimelineKey birth, const std::vector<std::uint64_t>& sizes) {
  std::uint64_t order = 0;
  for (const std::uint64_t bytes : sizes) {
    const TimelineKey key = birth == kTimelineStart ? birth : birth + order++;
    if (bytes > 0) rewrite.timeline.insert(key, kTimelineEnd, bytes, MemorySource::optimizer_state);
  }
}

// One buffer of each parameter's size: that much of the recorded state is kept.
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

// Elements that Adafactor keeps for a matrix: its rows and columns, as close to square as possible,
// since its shape is not in the recording.
std::uint64_t rows_and_columns(std::uint64_t elements) {
  std::uint64_t root = 1;
  while (root * root < elements) root *= 2;
  return 3 * root;
}

// For a convolution's weights it takes the last two dimensions, the kernel window, as the matrix:
// rows and columns of each window. For one-element windows that is twice the weights.
std::uint64_t windows_rows_and_columns(std::uint64_t elements) {
  for (const std::uint64_t side : {7U, 5U, 3U}) {
    if (elements % (side * side) == 0) return 2 * elements / side;
  }
  return 2 * elements;
}

// How a model's weights are used: convolutions, and linear layers after the last of them.
struct LayerCount {
  std::size_t convolutions = 0;
  std::size_t products = 0;
  std::size_t linear_at_the_end = 0;
};

LayerCount count_layers(const RunFacts& facts) {
  LayerCount count;
  const ForwardPass* pass = facts.last_whole_pass();
  if (pass == nullptr) return count;
  for (const Operation& operation : pass->operations) {
    if (operation.kind != OpKind::matmul) continue;
    ++count.products;
    const bool is_window = is_convolution(facts.store(), operation.stack);
    count.convolutions += is_window ? 1 : 0;
    count.linear_at_the_end = is_window ? 0 : count.linear_at_the_end + 1;
  }
  return count;
}

// Gradients are computed in the reverse order of the layers.
std::vector<std::uint64_t> adafactor_states(const RunFacts& facts) {
  constexpr std::uint64_t kVectorElements = 4096;  // a bias or a scale is usually no larger
  const LayerCount layers = count_layers(facts);
  const bool is_of_windows = 2 * layers.convolutions > layers.products;
  std::size_t matrices = 0;
  std::vector<std::uint64_t> sizes;
  for (const std::uint64_t bytes : facts.parameters()) {
    const std::uint64_t elements = bytes / kFloatBytes;
    if (elements < kVectorElements) {
      sizes.push_back(bytes);
      continue;
    }
    const bool is_window = is_of_windows && matrices++ >= layers.linear_at_the_end;
    sizes.push_back((is_window ? windows_rows_and_columns(elements) : rows_and_columns(elements)) *
                    kFloatBytes);
  }
  return sizes;
}

std::vector<std::uint64_t> states_of(const RunFacts& facts, OptimizerChoice choice) {
  if (choice == OptimizerChoice::adafactor) return adafactor_states(facts);
  std::vector<std::uint64_t> sizes;
  for (const std::uint64_t bytes : facts.parameters()) {
    const std::uint64_t elements = bytes / kFloatBytes;
    if (elements < kSmallest8BitElements) {
      sizes.insert(sizes.end(), 2, bytes);
    } else {
      const std::uint64_t scales = (elements + kBlockElements - 1) / kBlockElements * kFloatBytes;
      sizes.insert(sizes.end(), {elements, elements, scales, scales});
    }
  }
  return sizes;
}

}  // namespace

void use_optimizer(Rewrite& rewrite, OptimizerChoice choice) {
  drop_step_temporaries(rewrite);
  const TimelineKey birth = birth_of_states(rewrite);
  switch (choice) {
    case OptimizerChoice::sgd:
      drop_states(rewrite);
      return;
    case OptimizerChoice::sgd_momentum:
      keep_one_state(rewrite);
      return;
    case OptimizerChoice::lion:
      keep_one_state(rewrite);
      add_step_temporaries(rewrite, 2);
      return;
    case OptimizerChoice::adafactor:
      drop_states(rewrite);
      add_states(rewrite, birth, states_of(rewrite.facts, choice));
      add_step_temporaries(rewrite, 1);
      return;
    case OptimizerChoice::adam_8bit:
      drop_states(rewrite);
      add_states(rewrite, birth, states_of(rewrite.facts, choice));
      return;
  }
}

void use_stepping(Rewrite& rewrite, SteppingMode mode) {
  drop_step_temporaries(rewrite);
  // Without a second moment no square root is taken.
  const bool has_two_states = rewrite.facts.states_per_parameter().value_or(2) > 1.5;
  if (mode == SteppingMode::foreach_off) add_step_temporaries(rewrite, has_two_states ? 2 : 1);
}

void step_in_backward(Rewrite& rewrite) {
  drop_step_temporaries(rewrite);
  const bool has_two_states = rewrite.facts.states_per_parameter().value_or(2) > 1.5;
  for (const ForwardPass& pass : rewrite.facts.passes()) {
    for (const std::uint32_t row : pass.backward) {
      if (rewrite.facts.source(row) != MemorySource::gradients) continue;
      TimelineRow* gradient = rewrite.find(row);
      if (gradient == nullptr || !gradient->is_there()) continue;
      const std::uint32_t event = event_of(gradient->birth);
      const std::uint64_t bytes = gradient->size_bytes;
      gradient->die_at(after_event(event, 16));
      for (std::uint64_t index = 0; has_two_states && index < 2; ++index)
        rewrite.timeline.insert(after_event(event, index), after_event(event, 8), bytes,
                                MemorySource::temporaries);
    }
  }
}

void offload_optimizer(Rewrite& rewrite) {
  drop_states(rewrite);
  drop_step_temporaries(rewrite);
}

}  // namespace gpumemprof
