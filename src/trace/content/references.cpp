#include "trace/content/references.h"

#include <algorithm>

namespace gpumemprof::trace {
namespace {

// Whether every row is below the limit or none. None is the largest value.
template <typename T, typename RowOf>
bool all_below(const Column<T>& column, std::size_t first, std::size_t count, std::size_t limit,
               RowOf row_of) {
  if (column.empty()) return true;
  bool is_good = true;
  for (const T& value : column.span().subspan(first, count)) {
    const std::uint32_t row = row_of(value);
    is_good &= row < limit || row == StackId::kNone;
  }
  return is_good;
}

}  // namespace

bool refers_to_known(const DefinitionTable& definitions, const EventColumns& events,
                     std::size_t first, std::size_t count) {
  const auto id_row = [](const auto id) { return id.index; };
  const auto plain = [](std::uint32_t row) { return row; };
  const auto streams = events.stream.span().subspan(first, count);
  return *std::max_element(streams.begin(), streams.end()) < definitions.stream_count() &&
         all_below(events.stack, first, count, definitions.stack_count(), id_row) &&
         all_below(events.forward_stack, first, count, definitions.stack_count(), id_row) &&
         all_below(events.pool, first, count, definitions.pool_count(), plain) &&
         all_below(events.compile_context, first, count, definitions.string_count(), id_row) &&
         all_below(events.user_metadata, first, count, definitions.string_count(), id_row);
}

bool refers_to_known(const DefinitionTable& definitions, const SegmentState& segment,
                     std::span<const BlockState> blocks) {
  const auto is_stack = [&](StackId id) {
    return id.is_none() || id.index < definitions.stack_count();
  };
  return segment.stream < definitions.stream_count() &&
         (segment.pool == kNoPool || segment.pool < definitions.pool_count()) &&
         is_stack(segment.stack) &&
         std::all_of(
             blocks.begin(), blocks.end(),
             [&](const BlockState& block) { return is_stack(block.stack); });
}

bool refers_to_known(const DefinitionTable& definitions, const ChapterStart& start) {
  return std::ranges::all_of(start.live, [&](const LiveAllocation& live) {
    return live.stream < definitions.stream_count() &&
           (live.forward_stack.is_none() || live.forward_stack.index < definitions.stack_count()) &&
           (live.user_metadata.is_none() || live.user_metadata.index < definitions.string_count());
  });
}

}  // namespace gpumemprof::trace
