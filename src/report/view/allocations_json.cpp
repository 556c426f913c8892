#include <algorithm>
#include <unordered_map>

#include "analysis/code/whence.h"
#include "analysis/modules/module_index.h"
#include "analysis/tags/tags.h"
#include "report/view/labels.h"
#include "report/view/view_json.h"

namespace gpumemprof::view {
namespace {

Json death_json(const AllocationSource& source, std::uint32_t event) {
  const std::optional<Position> position = source.shown_death(event);
  return position ? Json(*position) : Json();
}

std::int64_t birth_ns(const AllocationSource& source, std::size_t row) {
  const std::uint32_t event = source.record.allocations.alloc_event[row];
  return event == kNoEvent || !source.times.is_known() || source.shown_birth(row) == 0
             ? kUnknownTime
             : source.times.since_first(source.times.of_event(event));
}

Json source_json(const AllocationSource& source, std::size_t row) {
  return has_sources(source.record) ? Json(static_cast<int>(source.record.labels.source[row]))
                                    : Json();
}

// The name of the tensor, where it is known.
Json name_json(const AllocationSource& source, std::size_t row) {
  const Column<StringId>& names = source.record.labels.name;
  if (row >= names.size() || names[row].is_none()) return {};
  return shown(source.store.text(names[row]));
}

// The tag under which it was made.
Json tag_json(const AllocationSource& source, std::size_t row) {
  return text_or_null(source.store, tag_of(source.record, row));
}

// The module it belongs to, where module instances are distinguished.
Json module_json(const AllocationSource& source, std::size_t row) {
  if (!source.store.has_module_numbers()) return {};
  ModuleIndex modules(source.store);
  const std::uint32_t entry = modules.of(source.record, source.record.labels, row);
  return entry == kNoModule ? Json() : Json(shown(modules.name(entry)));
}

StackId forward_stack(const DeviceRecord& record, std::size_t row) {
  const std::uint32_t event = record.allocations.alloc_event[row];
  return event < record.events.forward_stack.size() ? record.events.forward_stack[event]
                                                    : StackId();
}

// Assigns numbers to labels in order of first use.
class Labels {
 public:
  explicit Labels(const Store& store) : store_(store) {}

  std::size_t number(const DeviceRecord& record, std::size_t row) {
    const Whence from = whence(record, row);
    const std::uint64_t key = from.stack.index | (std::uint64_t{from.is_backward ? 1U : 0U} << 32);
    const auto [known, is_new] = numbers_.try_emplace(key, texts.size());
    if (is_new) {
      texts.push_back((from.is_backward ? std::string(kInBackward) : "") +
                      stack_label(store_, from.stack));
    }
    return known->second;
  }

  Json texts = Json::array();

 private:
  const Store& store_;
  std::unordered_map<std::uint64_t, std::size_t> numbers_;
};

}  // namespace

std::uint64_t AllocationSource::shown_row(std::size_t row) const {
  if (numbers == nullptr) return row;
  const Position birth = shown_birth(row);
  return birth > 0 ? birth : kOlderRow + record.allocations.address[row];
}

Position AllocationSource::shown_birth(std::size_t row) const {
  const std::uint32_t event = record.allocations.alloc_event[row];
  if (numbers == nullptr || event == kNoEvent) return birth_position(event);
  const ExcerptRange& range = numbers->range;
  if (event >= range.lead_in) return position_after(range.number_of(event));
  const auto& births = numbers->births;
  const auto found =
      std::ranges::lower_bound(births, event, {}, [](const auto& birth) { return birth.first; });
  const bool is_known = found != births.end() && found->first == event;
  return birth_position(is_known ? found->second : kNoEvent);
}

std::optional<Position> AllocationSource::shown_death(std::uint32_t event) const {
  if (event == kNoEvent) return std::nullopt;
  return position_after(numbers == nullptr ? event : numbers->range.number_of(event));
}

bool AllocationSource::goes_on(std::size_t row) const {
  return numbers != nullptr && numbers->range.to < numbers->range.run_events &&
         record.allocations.free_requested_event[row] == kNoEvent;
}

std::string allocations_json(const AllocationSource& source, const AllocationPage& page) {
  const AllocationColumns& rows = source.record.allocations;
  Labels labels(source.store);
  Json json = {{"matches", page.matches},    {"matching_bytes", page.matching_bytes},
               {"row", Json::array()},       {"size", Json::array()},
               {"requested", Json::array()}, {"birth", Json::array()},
               {"death", Json::array()},     {"birth_ns", Json::array()},
               {"lifetime", Json::array()},  {"source", Json::array()},
               {"stack", Json::array()},     {"forward_stack", Json::array()},
               {"label", Json::array()},     {"name", Json::array()},
               {"tag", Json::array()}};
  for (const AllocationId id : page.rows) {
    const std::size_t row = id.index;
    const StackId forward = forward_stack(source.record, row);
    json["row"].push_back(source.shown_row(row));
    json["size"].push_back(rows.size_bytes[row]);
    json["requested"].push_back(rows.requested_bytes[row]);
    json["birth"].push_back(source.shown_birth(row));
    json["death"].push_back(death_json(source, rows.free_requested_event[row]));
    if (source.numbers != nullptr) json["goes_on"].push_back(source.goes_on(row));
    json["birth_ns"].push_back(time_or_null(birth_ns(source, row)));
    json["lifetime"].push_back(lifetime_of(source.record, source.times, row));
    json["source"].push_back(source_json(source, row));
    json["stack"].push_back(rows.stack[row].is_none() ? Json() : Json(rows.stack[row].index));
    json["forward_stack"].push_back(forward.is_none() ? Json() : Json(forward.index));
    json["label"].push_back(labels.number(source.record, row));
    json["name"].push_back(name_json(source, row));
    json["tag"].push_back(tag_json(source, row));
  }
  json["labels"] = std::move(labels.texts);
  return dump(json);
}

std::string allocation_json(const AllocationSource& source, AllocationId id,
                            const AllocationEnd* end) {
  const AllocationColumns& rows = source.record.allocations;
  const std::size_t row = id.index;
  const std::uint32_t freed = rows.free_requested_event[row];
  const bool has_time = source.times.is_known();
  Labels labels(source.store);
  labels.number(source.record, row);
  Json json = {{"row", source.shown_row(row)},
               {"address", address_text(rows.address[row])},
               {"size", rows.size_bytes[row]},
               {"requested", rows.requested_bytes[row]},
               {"birth", source.shown_birth(row)},
               {"death", death_json(source, freed)},
               {"reusable", death_json(source, rows.free_completed_event[row])},
               {"birth_ns", time_or_null(birth_ns(source, row))},
               {"death_ns", freed == kNoEvent || !has_time
                                ? Json()
                                : Json(source.times.since_first(source.times.of_event(freed)))},
               {"lifetime", lifetime_of(source.record, source.times, row)},
               {"stream", source.store.stream_count() > rows.stream[row]
                              ? Json(address_text(source.store.stream_handle(rows.stream[row])))
                              : Json()},
               {"source", source_json(source, row)},
               {"is_source_measured",
                has_sources(source.record) ? Json(source.record.labels.is_measured(row)) : Json()},
               {"name", name_json(source, row)},
               {"tag", tag_json(source, row)},
               {"module", module_json(source, row)},
               {"label", labels.texts[0]},
               {"frames", stack_frames(source.store, rows.stack[row])},
               {"forward_frames", stack_frames(source.store, forward_stack(source.record, row))}};
  if (end != nullptr) {
    json["death"] = end->death ? Json(*end->death) : Json();
    json["reusable"] = end->reusable ? Json(*end->reusable) : Json();
    json["death_ns"] = time_or_null(end->death_ns);
    json["lifetime"] = end->lifetime;
  }
  return dump(json);
}

std::string segments_json(const AllocationSource& source, const Grouping& grouping,
                          const PoolState& map, Position position) {
  Json segments = Json::array();
  for (const PoolSegment& segment : map.segments) {
    const SegmentState& state = segment.state;
    const PoolId pool = source.store.pool(state.pool);
    segments.push_back(
        {{"address", address_text(state.address)},
         {"size", state.size_bytes},
         {"free", segment.free_bytes},
         {"stream", source.store.stream_count() > state.stream
                        ? address_text(source.store.stream_handle(state.stream))
                        : "0x0"},
         {"pool", pool == PoolId{} ? Json() : Json({pool.graph, pool.user})},
         {"is_small", state.is_small},
         {"is_expandable", state.is_expandable},
         {"pin", segment.pin().is_none() ? Json() : Json(source.shown_row(segment.pin().index))},
         {"blocks", segment.block_count}});
  }
  // Blocks tile their segments, so their sizes give their positions. Free: row -1.
  Json size = Json::array();
  Json row = Json::array();
  Json group = Json::array();
  Labels labels(source.store);
  Json label = Json::array();
  for (const PoolBlock& block : map.blocks) {
    size.push_back(block.size_bytes);
    const bool is_free = block.allocation.is_none();
    row.push_back(is_free ? -1
                          : static_cast<std::int64_t>(source.shown_row(block.allocation.index)));
    const int groups = is_free ? 0 : grouping.group_of_allocation[block.allocation.index];
    // A block that waits for a stream is marked by a negative group.
    group.push_back(block.is_waiting ? -1 - groups : groups);
    label.push_back(
        is_free ? -1
                : static_cast<std::int64_t>(labels.number(source.record, block.allocation.index)));
  }
  return dump({{"position", position},
               {"reserved_bytes", map.reserved_bytes},
               {"allocated_bytes", map.allocated_bytes},
               {"waiting_bytes", map.waiting_bytes},
               {"free_bytes", map.free_bytes},
               {"segments", segments},
               {"size", size},
               {"row", row},
               {"group", group},
               {"label", label},
               {"labels", labels.texts}});
}

std::string stacks_json(const Store& store, std::span<const StackId> stacks) {
  // Written one by one: as objects, many deep stacks would take many times the memory of their
  // text.
  constexpr std::size_t kMostBytes = std::size_t{32} << 20;
  std::string out = "{";
  for (const StackId stack : stacks) {
    if (stack.is_none()) continue;
    if (out.size() > 1) out += ',';
    out += '"' + std::to_string(stack.index) + "\":";
    out += out.size() > kMostBytes ? "[]" : dump(stack_frames(store, stack));
  }
  return out + "}";
}

}  // namespace gpumemprof::view
