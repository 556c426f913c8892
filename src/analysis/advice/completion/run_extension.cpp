#include "analysis/advice/completion/run_extension.h"

namespace gpumemprof {

RunExtension::RunExtension(const DeviceRecord& recorded, const std::vector<PhaseSpan>& spans,
                           std::uint32_t end)
    : recorded_(recorded) {
  record_.device = recorded.device;
  record_.events.append(recorded.events, 0, end);
  copy_rows(end);
  for (const PhaseSpan& span : spans) {
    if (span.first_event < end) spans_.push_back(span);
  }
}

// Rows born later are dropped: rows are in order of birth.
void RunExtension::copy_rows(std::uint32_t end) {
  const AllocationColumns& from = recorded_.allocations;
  AllocationColumns& to = record_.allocations;
  const AllocationLabels& labels = recorded_.labels;
  std::size_t count = from.size();
  while (count > 0 && from.alloc_event[count - 1] != kNoEvent && from.alloc_event[count - 1] >= end)
    --count;
  to.address.append(from.address.span().first(count));
  to.size_bytes.append(from.size_bytes.span().first(count));
  to.requested_bytes.append(from.requested_bytes.span().first(count));
  to.alloc_event.append(from.alloc_event.span().first(count));
  to.free_requested_event.append(from.free_requested_event.span().first(count));
  to.free_completed_event.append(from.free_completed_event.span().first(count));
  to.stream.append(from.stream.span().first(count));
  to.stack.append(from.stack.span().first(count));
  to.segment.append(from.segment.span().first(count));
  for (std::size_t row = 0; row < count; ++row) {
    if (to.free_requested_event[row] != kNoEvent && to.free_requested_event[row] >= end)
      to.free_requested_event[row] = kNoEvent;
    if (to.free_completed_event[row] != kNoEvent && to.free_completed_event[row] >= end)
      to.free_completed_event[row] = to.free_requested_event[row];
  }
  record_.labels.source.append(labels.source.span().first(count));
  record_.labels.flags.append(labels.flags.span().first(count));
  if (!labels.name.empty()) record_.labels.name.append(labels.name.span().first(count));
  record_.labels.has_recorded = labels.has_recorded;
}

void RunExtension::begin_span(Phase phase, std::uint32_t step) {
  const PhaseSpan span{next_event(), phase, step};
  if (!spans_.empty() && spans_.back().phase == phase && spans_.back().step == step) return;
  if (!spans_.empty() && spans_.back().first_event == span.first_event) {
    spans_.back() = span;
  } else {
    spans_.push_back(span);
  }
}

void RunExtension::add_event(Action action, std::uint64_t bytes, StackId stack) {
  Event event;
  event.action = action;
  event.size_bytes = bytes;
  event.stack = stack;
  if (!record_.events.empty()) event.time_ns = record_.events.time_ns.back();
  record_.events.push_back(event);
}

std::uint32_t RunExtension::add(std::uint64_t bytes, StackId stack, MemorySource source) {
  AllocationColumns& rows = record_.allocations;
  rows.address.push_back(0);
  rows.size_bytes.push_back(bytes);
  rows.requested_bytes.push_back(bytes);
  rows.alloc_event.push_back(next_event());
  rows.free_requested_event.push_back(kNoEvent);
  rows.free_completed_event.push_back(kNoEvent);
  rows.stream.push_back(rows.stream.empty() ? 0 : rows.stream.back());
  rows.stack.push_back(stack);
  rows.segment.push_back(SegmentId());
  record_.labels.source.push_back(source);
  record_.labels.flags.push_back(0);
  if (!record_.labels.name.empty()) record_.labels.name.push_back(StringId());
  add_event(Action::alloc, bytes, stack);
  return static_cast<std::uint32_t>(rows.size() - 1);
}

void RunExtension::free(std::uint32_t row) {
  if (!lives(row)) return;
  bury(row, next_event());
  add_event(Action::free_requested, record_.allocations.requested_bytes[row],
            record_.allocations.stack[row]);
}

void RunExtension::bury(std::uint32_t row, std::uint32_t event) {
  record_.allocations.free_requested_event[row] = event;
  record_.allocations.free_completed_event[row] = event;
}

std::vector<std::uint32_t> RunExtension::repeat(
    EventRange events, std::uint32_t step, const std::vector<PhaseSpan>& spans,
    const std::function<bool(std::uint32_t row)>& takes,
    const std::function<std::uint64_t(std::uint32_t row)>& resize) {
  const std::uint32_t start = next_event();
  for (std::size_t index = 0; index < spans.size(); ++index) {
    const std::uint32_t first = spans[index].first_event;
    const std::uint32_t end = index + 1 < spans.size() ? spans[index + 1].first_event : kNoEvent;
    if (end <= events.first || first >= events.end) continue;
    const std::uint32_t from = std::max(first, events.first) - events.first;
    const PhaseSpan span{start + from, spans[index].phase, step};
    const bool continues = !spans_.empty() && spans_.back().phase == span.phase;
    if (!continues || spans_.back().step != step) spans_.push_back(span);
  }
  std::vector<std::uint32_t> outliving;
  const AllocationColumns& rows = recorded_.allocations;
  // Times continue from the last event.
  const std::int64_t last = record_.events.empty() ? kUnknownTime : record_.events.time_ns.back();
  const std::int64_t first = recorded_.events.time_ns[events.first];
  const auto row_count = static_cast<std::uint32_t>(rows.size());
  std::uint32_t row = 0;
  while (row < row_count &&
         (rows.alloc_event[row] == kNoEvent || rows.alloc_event[row] < events.first))
    ++row;
  for (std::uint32_t at = events.first; at < events.end; ++at) {
    const bool is_known = last != kUnknownTime && first != kUnknownTime &&
                          recorded_.events.time_ns[at] != kUnknownTime;
    const std::int64_t time = is_known ? last + recorded_.events.time_ns[at] - first : kUnknownTime;
    if (row < row_count && rows.alloc_event[row] == at && takes(row)) {
      const std::uint32_t death = rows.free_requested_event[row];
      const std::uint32_t made =
          add(resize(row), rows.stack[row], recorded_.labels.source_in_step(row));
      record_.allocations.stream[made] = rows.stream[row];
      if (death < events.end) {
        bury(made, start + (death - events.first));
      } else {
        outliving.push_back(made);
      }
    } else {
      // Every event keeps its distance to the first: frees find their moment by it.
      const Action action = recorded_.events.action[at];
      add_event(action == Action::alloc ? Action::other : action, recorded_.events.size_bytes[at],
                recorded_.events.stack[at]);
    }
    record_.events.time_ns.back() = time;
    if (row < row_count && rows.alloc_event[row] == at) ++row;
  }
  return outliving;
}

}  // namespace gpumemprof
