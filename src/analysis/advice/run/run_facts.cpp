#include "analysis/advice/run/run_facts.h"

#include <algorithm>
#include <map>

#include "base/bytes.h"

namespace gpumemprof {
namespace {

constexpr std::uint32_t kNoRow = 0xffffffffU;
// Smaller gradients are usually biases and scales: they say nothing about a matrix.
constexpr std::uint64_t kMatrixBytes = 64 * kKiB;

}  // namespace

RunFacts::RunFacts(const Store& store, const DeviceRecord& record,
                   const std::vector<PhaseSpan>& spans, const std::vector<std::uint32_t>& grown)
    : store_(store), record_(record), spans_(spans, record.events.size()), kinds_(op_kinds(store)) {
  for (std::size_t run = 0; run < spans_.count(); ++run) {
    if (spans_.phase(run) == Phase::optimizer_step)
      steps_.push_back({spans_.first(run), spans_.end(run)});
  }
  find_passes(grown);
  // A step that allocates nothing leaves no event: it comes after backward.
  const bool is_silent = allocates_no_step();
  for (const ForwardPass& pass : passes_) {
    if (!is_silent) break;
    if (pass.has_backward() && pass.backward_end < record.events.size())
      steps_.push_back({pass.backward_end, pass.backward_end});
  }
  find_parameters();
  for (ForwardPass& pass : passes_) {
    find_operations(pass);
    find_mirror(pass);
    find_matmuls_by_gradient(pass);
  }
}

Phase RunFacts::phase_at(std::uint32_t event) const {
  return event == kNoEvent || event >= record_.events.size() ? Phase::other
                                                             : spans_.phase(spans_.run_of(event));
}

// No optimizer event, although gradients were computed.
bool RunFacts::allocates_no_step() const {
  for (std::size_t run = 0; run < spans_.count(); ++run) {
    if (spans_.phase(run) == Phase::optimizer_step) return false;
  }
  for (const ForwardPass& pass : passes_) {
    for (const std::uint32_t row : pass.backward) {
      if (source(row) == MemorySource::gradients) return true;
    }
  }
  return false;
}

void RunFacts::find_passes(const std::vector<std::uint32_t>& grown) {
  const AllocationColumns& rows = record_.allocations;
  Column<std::uint32_t> row_at;
  row_at.resize(record_.events.size(), kNoRow);
  for (std::uint32_t row = 0; row < rows.size(); ++row) {
    if (rows.alloc_event[row] != kNoEvent) row_at[rows.alloc_event[row]] = row;
    has_stacks_ = has_stacks_ || !rows.stack[row].is_none();
  }
  const auto is_of_pass = [&](std::uint32_t row) {
    if (row == kNoRow || std::binary_search(grown.begin(), grown.end(), row)) return false;
    const MemorySource of = source(row);
    return of != MemorySource::inputs && of != MemorySource::parameters &&
           of != MemorySource::workspace && of != MemorySource::optimizer_state;
  };
  for (std::size_t run = 0; run < spans_.count(); ++run) {
    if (spans_.phase(run) != Phase::forward) continue;
    ForwardPass pass;
    pass.first_event = spans_.first(run);
    const std::size_t backward = spans_.next_backward(run);
    const std::size_t forward = spans_.next_forward(run);
    std::uint32_t end = spans_.end(run);
    if (backward < forward) {
      pass.backward_first = end = spans_.first(backward);
      std::size_t last = backward;
      for (std::size_t next = backward; next < spans_.count() && next < forward; ++next) {
        if (spans_.phase(next) == Phase::optimizer_step) break;
        if (spans_.phase(next) == Phase::backward) last = next;
      }
      pass.backward_end = spans_.end(last);
    }
    for (std::uint32_t event = pass.first_event; event < end; ++event) {
      if (is_of_pass(row_at[event])) pass.forward.push_back(row_at[event]);
    }
    for (std::uint32_t event = end; pass.has_backward() && event < pass.backward_end; ++event) {
      if (is_of_pass(row_at[event])) pass.backward.push_back(row_at[event]);
    }
    passes_.push_back(std::move(pass));
  }
}

void RunFacts::find_operations(ForwardPass& pass) {
  const Column<StackId>& stacks = record_.allocations.stack;
  for (std::uint32_t place = 0; place < pass.forward.size(); ++place) {
    const StackId stack = stacks[pass.forward[place]];
    if (pass.operations.empty() || pass.operations.back().stack != stack) {
      const OpKind kind = stack.is_none() ? OpKind::unknown : kinds_[stack.index];
      pass.operations.push_back({place, 0, place, kind, stack});
    }
    Operation& operation = pass.operations.back();
    ++operation.count;
    const bool is_larger = bytes(pass.forward[place]) >= bytes(pass.forward[operation.output]);
    if (is_larger && operation.kind != OpKind::pool && operation.kind != OpKind::matmul)
      operation.output = place;
    pass.operation_of.push_back(static_cast<std::uint32_t>(pass.operations.size() - 1));
  }
}

// Backward frees, in reverse order, what forward saved. The latest of it that is still live shows
// how far backward has come; results that stay live for other reasons (the loss, say) are left out.
void RunFacts::find_mirror(ForwardPass& pass) const {
  std::vector<std::uint32_t> saved;  // places in forward
  std::uint64_t largest = 0;
  for (std::uint32_t place = 0; place < pass.forward.size(); ++place) {
    const std::uint32_t row = pass.forward[place];
    if (!is_saved(pass, row) || death(row) >= pass.backward_end) continue;
    saved.push_back(place);
    largest = std::max(largest, bytes(row));
  }
  std::erase_if(saved,
                [&](std::uint32_t place) { return bytes(pass.forward[place]) < largest / 4096; });
  std::uint64_t total = 0;
  std::vector<std::uint64_t> expected;  // bytes still live at its free, if all were freed in order
  expected.reserve(saved.size());
  for (const std::uint32_t place : saved) expected.push_back(total += bytes(pass.forward[place]));
  std::vector<std::uint32_t> by_death(saved.size());
  for (std::uint32_t index = 0; index < saved.size(); ++index) by_death[index] = index;
  std::sort(by_death.begin(), by_death.end(), [&](std::uint32_t a, std::uint32_t b) {
    return death(pass.forward[saved[a]]) < death(pass.forward[saved[b]]);
  });
  std::vector<char> is_in_order(saved.size(), 0);
  std::uint64_t there = total;
  for (const std::uint32_t index : by_death) {
    const std::uint64_t size = bytes(pass.forward[saved[index]]);
    const std::uint64_t gap =
        there > expected[index] ? there - expected[index] : expected[index] - there;
    is_in_order[index] = gap <= total / 8 + size ? 1 : 0;
    there -= size;
  }
  std::size_t last = saved.size();
  for (const std::uint32_t row : pass.backward) {
    while (last > 0 &&
           (is_in_order[last - 1] == 0 || death(pass.forward[saved[last - 1]]) < birth(row)))
      --last;
    pass.mirror.push_back(last == 0 ? kNoRow : saved[last - 1]);
  }
}

// A line of user code that has a weight matrix to itself multiplies by it.
void RunFacts::find_matmuls_by_gradient(ForwardPass& pass) {
  std::map<StackId, std::uint32_t> gradients;
  for (std::size_t index = 0; index < pass.backward.size(); ++index) {
    const std::uint32_t row = pass.backward[index];
    if (source(row) != MemorySource::gradients || bytes(row) < kMatrixBytes) continue;
    const std::uint32_t place = pass.mirror[index];
    const std::size_t next = place == kNoRow ? 0 : pass.operation_of[place] + 1;
    bool is_explained = false;
    for (std::size_t near = next == 0 ? 0 : next - 1;
         near < std::min(next + 3, pass.operations.size()); ++near) {
      const OpKind kind = pass.operations[near].kind;
      is_explained = is_explained || kind == OpKind::matmul || kind == OpKind::embedding;
    }
    if (is_explained || next >= pass.operations.size()) continue;
    if (pass.operations[next].kind == OpKind::unknown) ++gradients[pass.operations[next].stack];
  }
  std::map<StackId, std::uint32_t> runs;
  for (const Operation& operation : pass.operations) {
    if (gradients.contains(operation.stack)) ++runs[operation.stack];
  }
  for (Operation& operation : pass.operations) {
    const auto found = gradients.find(operation.stack);
    if (found == gradients.end() || 10 * found->second < 7 * runs[operation.stack]) continue;
    operation.kind = OpKind::matmul;
    operation.output = operation.first;
  }
}

// Products, softmax and dropout have that size one after the other; a fused kernel allocates its
// result and small statistics.
std::uint64_t RunFacts::scores_bytes(const ForwardPass& pass, const Operation& operation) const {
  constexpr std::uint32_t kFewest = 4;
  constexpr std::uint64_t kSmall = 8;
  if (operation.kind != OpKind::attention || operation.count < kFewest) return 0;
  const std::uint64_t result = bytes(pass.forward[operation.first + operation.count - 1]);
  std::map<std::uint64_t, std::uint32_t> rows_of_size;
  for (std::uint32_t place = operation.first; place < operation.first + operation.count; ++place) {
    const std::uint64_t size = bytes(pass.forward[place]);
    if (size != result && kSmall * size >= result) ++rows_of_size[size];
  }
  const auto most =
      std::max_element(rows_of_size.begin(), rows_of_size.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == rows_of_size.end() || most->second < 2 ? 0 : most->first;
}

bool RunFacts::is_attention_written_out(const ForwardPass& pass, const Operation& operation) const {
  if (operation.kind != OpKind::attention) return false;
  if (scores_bytes(pass, operation) > 0) return true;
  // A fused kernel allocates its result, and may copy queries, keys and values first.
  constexpr std::uint32_t kMostOfKernel = 4;
  const std::uint64_t result = bytes(pass.forward[operation.first + operation.count - 1]);
  std::uint32_t alike = 0;
  for (std::uint32_t place = operation.first; place < operation.first + operation.count; ++place)
    if (bytes(pass.forward[place]) == result) ++alike;
  return alike > kMostOfKernel;
}

bool RunFacts::may_be_weights(const ForwardPass& pass, std::size_t place) const {
  return !is_saved(pass, pass.forward[place]) &&
         is_recurrent(store_, pass.operations[pass.operation_of[place]].stack);
}

void RunFacts::find_parameters() {
  std::uint64_t most = 0;
  for (const ForwardPass& pass : passes_) {
    std::vector<std::uint64_t> sizes;
    std::uint64_t sum = 0;
    for (const std::uint32_t row : pass.backward) {
      if (source(row) != MemorySource::gradients) continue;
      sizes.push_back(bytes(row));
      sum += bytes(row);
    }
    if (sum <= most) continue;
    most = sum;
    parameters_ = std::move(sizes);
  }
  if (parameters_.empty()) {
    const AllocationLabels& labels = record_.labels;
    for (std::uint32_t row = 0; row < record_.allocations.size(); ++row) {
      if (source(row) != MemorySource::parameters) continue;
      if ((labels.flags[row] & AllocationLabels::kBuffer) == 0) parameters_.push_back(bytes(row));
    }
  }
  parameter_sizes_ = parameters_;
  std::sort(parameter_sizes_.begin(), parameter_sizes_.end());
  parameter_sizes_.erase(std::unique(parameter_sizes_.begin(), parameter_sizes_.end()),
                         parameter_sizes_.end());
}

const ForwardPass* RunFacts::last_whole_pass() const {
  const ForwardPass* last = nullptr;
  for (const ForwardPass& pass : passes_) {
    if (pass.has_backward()) last = &pass;
  }
  return last;
}

const ForwardPass* RunFacts::first_pass_after(const EventRange& step) const {
  const auto found =
      std::partition_point(passes_.begin(), passes_.end(),
                           [&](const ForwardPass& pass) { return pass.first_event < step.end; });
  return found == passes_.end() ? nullptr : &*found;
}

bool RunFacts::is_parameter_size(std::uint64_t size) const {
  return std::binary_search(parameter_sizes_.begin(), parameter_sizes_.end(), size);
}

std::uint64_t RunFacts::parameter_bytes() const {
  std::uint64_t sum = 0;
  for (const std::uint64_t size : parameters_) sum += size;
  return sum;
}

std::optional<double> RunFacts::states_per_parameter() const {
  const std::uint64_t parameters = parameter_bytes();
  if (parameters == 0) return std::nullopt;
  std::uint64_t states = 0;
  for (std::uint32_t row = 0; row < record_.allocations.size(); ++row) {
    if (source(row) == MemorySource::optimizer_state) states += bytes(row);
  }
  return static_cast<double>(states) / static_cast<double>(parameters);
}

std::optional<double> RunFacts::seconds_in(Phase phase) const {
  const Column<std::int64_t>& times = record_.events.time_ns;
  if (passes_.empty() || times.empty()) return std::nullopt;
  // The first step is warm-up.
  const std::uint32_t from = passes_.size() > 1 ? passes_[1].first_event : 0;
  double sum_ns = 0;
  for (std::size_t run = 0; run < spans_.count(); ++run) {
    if (spans_.phase(run) != phase || spans_.first(run) < from) continue;
    const std::uint32_t last =
        std::min<std::uint32_t>(spans_.end(run), static_cast<std::uint32_t>(times.size() - 1));
    if (times[spans_.first(run)] == kUnknownTime || times[last] == kUnknownTime)
      return std::nullopt;
    sum_ns += static_cast<double>(times[last] - times[spans_.first(run)]);
  }
  return sum_ns / 1e9;
}

AllocationTimeline RunFacts::timeline(const sim::RequestColumns& proven,
                                      std::uint32_t first_event) const {
  AllocationTimeline timeline;
  timeline.pools = proven.pools;
  timeline.stream_pools = proven.stream_pools;
  if (timeline.stream_pools.empty()) timeline.stream_pools.emplace_back();
  Column<std::uint32_t> stream_pool_at;
  stream_pool_at.resize(record_.events.size(), kNoRow);
  for (std::size_t row = 0; row < proven.size(); ++row) {
    const std::uint32_t event = proven.event[row];
    const sim::RequestKind kind = proven.kind[row];
    const TimelineKey key = event == kNoEvent ? kTimelineStart : at_event(event);
    if (kind == sim::RequestKind::allocate && event < record_.events.size()) {
      stream_pool_at[event] = proven.stream_pool[proven.operand[row]].index;
    } else if (kind == sim::RequestKind::empty_cache || kind == sim::RequestKind::release_pool ||
               kind == sim::RequestKind::empty_pool) {
      timeline.commands.push_back({key, kind, proven.operand[row]});
    }
  }
  const AllocationColumns& rows = record_.allocations;
  timeline.rows.reserve(rows.size() + rows.size() / 4);
  for (std::uint32_t row = 0; row < rows.size(); ++row) {
    TimelineRow entry;
    const std::uint32_t born = rows.alloc_event[row];
    if (born != kNoEvent && born >= first_event) entry.birth = at_event(born);
    if (death(row) != kNoEvent && death(row) < first_event) continue;
    if (death(row) != kNoEvent) entry.death = at_event(death(row));
    const std::uint32_t completed = rows.free_completed_event[row];
    // Usually freed and reusable at the next event: one moment for the timeline.
    const bool is_plain = completed == kNoEvent || completed <= death(row) + 1;
    entry.reusable = is_plain ? entry.death : at_event(completed);
    entry.size_bytes = bytes(row);
    entry.origin = row;
    entry.source = source(row);
    if (born != kNoEvent && stream_pool_at[born] != kNoRow) {
      entry.stream_pool = stream_pool_at[born];
    } else {
      const auto stream_pool = std::find_if(
          timeline.stream_pools.begin(), timeline.stream_pools.end(),
          [&](const sim::StreamPoolKey& candidate) {
            return candidate.stream == rows.stream[row] && candidate.pool == sim::kDefaultPool;
          });
      if (stream_pool != timeline.stream_pools.end())
        entry.stream_pool = static_cast<std::uint32_t>(stream_pool - timeline.stream_pools.begin());
    }
    timeline.rows.push_back(entry);
  }
  return timeline;
}

}  // namespace gpumemprof
