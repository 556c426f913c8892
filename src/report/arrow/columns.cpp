#include "report/arrow/columns.h"

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "analysis/code/allocation_site.h"
#include "analysis/modules/module_index.h"
#include "analysis/sources/sources.h"

namespace gpumemprof::arrow {
namespace {

constexpr bool kNullable = true;

// In an oom event the address holds the bytes the device had free: one field, two columns.
Values event_addresses(const Store& /*store*/, const DeviceRecord* device) {
  const EventColumns& events = device->events;
  Values values = borrowed(events.address);
  mark_nulls(values, [&](std::size_t row) { return events.action[row] == Action::oom; });
  return values;
}

Values device_free_bytes(const Store& /*store*/, const DeviceRecord* device) {
  const EventColumns& events = device->events;
  Values values = borrowed(events.address);
  mark_nulls(values, [&](std::size_t row) {
    return events.action[row] != Action::oom || events.address[row] == kUnknownBytes;
  });
  return values;
}

// Unknown where the allocations of the store were not classified by source.
Values allocation_sources(const Store& /*store*/, const DeviceRecord* device) {
  const std::size_t rows = device->allocations.size();
  if (device->labels.source.size() == rows) return borrowed(device->labels.source);
  static_assert(static_cast<std::uint8_t>(MemorySource::unknown) == 0);
  Values values;
  values.length = rows;
  values.buffers.push_back(values.own(zeroed_buffer(rows)));
  return values;
}

constexpr std::uint32_t kNoText = StringId::kNone;

Values allocation_names(const Store& /*store*/, const DeviceRecord* device) {
  return borrowed_or_absent(device->labels.name, StringId{}, device->allocations.size());
}

Values allocation_tags(const Store& /*store*/, const DeviceRecord* device) {
  const Column<StringId>& tags = device->events.user_metadata;
  const Column<std::uint32_t>& births = device->allocations.alloc_event;
  if (tags.empty()) return all_null(births.size(), sizeof(std::uint32_t));
  return made_with_none(births.size(), kNoText, [&](std::size_t row) {
    return births[row] < tags.size() ? tags[births[row]].index : kNoText;
  });
}

// The training step it was made in; null before the first step.
Values allocation_steps(const Store& /*store*/, const DeviceRecord* device) {
  const Column<std::uint32_t>& births = device->allocations.alloc_event;
  return made_with_none(births.size(), std::uint32_t{0},
                        [&](std::size_t row) { return step_at(device->phases, births[row]); });
}

template <Column<std::uint32_t> AllocationColumns::* kEvent>
Values allocation_times(const Store& /*store*/, const DeviceRecord* device) {
  const Column<std::uint32_t>& events = device->allocations.*kEvent;
  const Column<std::int64_t>& times = device->events.time_ns;
  return made_with_none(events.size(), kUnknownTime, [&](std::size_t row) {
    return events[row] < times.size() ? times[events[row]] : kUnknownTime;
  });
}

// Where in the program's own code each allocation was made; for backward, where its forward was
// called.
class Places {
 public:
  Places(const Store& store, const DeviceRecord& device)
      : store_(store), device_(device), sites_(store) {}

  [[nodiscard]] std::optional<Frame> of(std::size_t row) {
    const StackId line = sites_.of(device_, row).stack;
    if (line.is_none()) return std::nullopt;
    return store_.frame(store_.stacks().frame(line));
  }

 private:
  const Store& store_;
  const DeviceRecord& device_;
  AllocationSites sites_;
};

// The names of modules, by the store's rows of texts: `entry_of(index, row)` for each row.
template <typename EntryOf>
Values module_names(const Store& store, std::size_t rows, EntryOf entry_of) {
  if (!store.has_module_numbers()) return all_null(rows, sizeof(StringId));
  ModuleIndex index(store);
  Values values = row_numbers(rows);
  auto* names = static_cast<std::uint32_t*>(values.owned.back().get());
  for (std::size_t row = 0; row < rows; ++row) {
    const std::uint32_t entry = entry_of(index, row);
    names[row] = entry == kNoModule ? StringId::kNone : index.entries()[entry].name.index;
  }
  std::vector<bool> is_null(rows);
  for (std::size_t row = 0; row < rows; ++row) {
    is_null[row] = names[row] == StringId::kNone;
    if (is_null[row]) names[row] = 0;  // readers look up a code before they check the bitmap
  }
  mark_nulls(values, [&](std::size_t row) { return is_null[row]; });
  return values;
}

Values event_modules(const Store& store, const DeviceRecord* device) {
  return module_names(store, device->events.size(), [&](ModuleIndex& index, std::size_t row) {
    return index.of_event(*device, static_cast<std::uint32_t>(row));
  });
}

Values allocation_modules(const Store& store, const DeviceRecord* device) {
  return module_names(store, device->allocations.size(), [&](ModuleIndex& index, std::size_t row) {
    return index.of(*device, device->labels, row);
  });
}

using Texts = StringId Frame::*;

template <Texts kPart>
Values allocation_places(const Store& store, const DeviceRecord* device) {
  Places places(store, *device);
  return made_with_none(device->allocations.size(), kNoText, [&](std::size_t row) {
    const std::optional<Frame> frame = places.of(row);
    return frame ? ((*frame).*kPart).index : kNoText;
  });
}

Values allocation_lines(const Store& store, const DeviceRecord* device) {
  Places places(store, *device);
  return made_with_none(device->allocations.size(), std::uint32_t{0}, [&](std::size_t row) {
    const std::optional<Frame> frame = places.of(row);
    return frame ? frame->line : std::uint32_t{0};
  });
}

template <Texts kPart>
Values frame_texts(const Store& store, const DeviceRecord* /*device*/) {
  return copied_texts(store.frames().size(),
                      [&](std::size_t row) { return store.text(store.frames()[row].*kPart); });
}

Values frame_lines(const Store& store, const DeviceRecord* /*device*/) {
  Values values = row_numbers(store.frames().size());
  auto* lines = static_cast<std::uint32_t*>(values.owned.back().get());
  for (std::size_t row = 0; row < values.length; ++row) lines[row] = store.frames()[row].line;
  return values;
}

template <typename Part>
const Part& part_of(const DeviceRecord& device) {
  if constexpr (std::is_same_v<Part, EventColumns>) return device.events;
  if constexpr (std::is_same_v<Part, AllocationColumns>) return device.allocations;
  if constexpr (std::is_same_v<Part, SegmentColumns>) return device.segments;
}

// The column of a device's record given by a pointer to member.
template <typename Part, typename T>
const Column<T>& find(const DeviceRecord& device, Column<T> Part::* column) {
  return part_of<Part>(device).*column;
}

template <auto kColumn>
Values plain(const Store& /*store*/, const DeviceRecord* device) {
  return borrowed(find(*device, kColumn));
}

template <auto kColumn, auto kNone>
Values with_none(const Store& /*store*/, const DeviceRecord* device) {
  return borrowed_with_none(find(*device, kColumn), kNone);
}

template <auto kColumn, auto kNone>
Values event_or_absent(const Store& /*store*/, const DeviceRecord* device) {
  return borrowed_or_absent(find(*device, kColumn), kNone, device->events.size());
}

template <auto kColumn>
Values bools(const Store& /*store*/, const DeviceRecord* device) {
  return packed_bools(find(*device, kColumn));
}

template <typename Part>
Values device_names(const Store& store, const DeviceRecord* device) {
  const std::string name = store.device_name(device->device);
  return copied_texts(part_of<Part>(*device).size(),
                      [&](std::size_t /*row*/) { return std::string_view(name); });
}

template <typename Part>
Values numbered(const Store& /*store*/, const DeviceRecord* device) {
  return row_numbers(part_of<Part>(*device).size());
}

constexpr std::array kEventColumns = {
    TableColumn{{"device", kLargeUtf8}, device_names<EventColumns>},
    TableColumn{{"event", kUInt32}, numbered<EventColumns>},
    TableColumn{{"action", kInt8, false, Dictionary::actions}, plain<&EventColumns::action>},
    TableColumn{{"address", kInt64, kNullable}, event_addresses},
    TableColumn{{"size_bytes", kInt64}, plain<&EventColumns::size_bytes>},
    TableColumn{{"stream", kUInt32}, plain<&EventColumns::stream>},
    TableColumn{{"time_ns", kInt64, kNullable}, with_none<&EventColumns::time_ns, kUnknownTime>},
    TableColumn{{"stack", kUInt32, kNullable}, with_none<&EventColumns::stack, StackId{}>},
    TableColumn{{"compile_context", kUInt32, kNullable, Dictionary::texts},
                event_or_absent<&EventColumns::compile_context, StringId{}>},
    TableColumn{{"user_metadata", kUInt32, kNullable, Dictionary::texts},
                event_or_absent<&EventColumns::user_metadata, StringId{}>},
    TableColumn{{"pool", kUInt32, kNullable}, event_or_absent<&EventColumns::pool, kNoPool>},
    TableColumn{{"device_free_bytes", kInt64, kNullable}, device_free_bytes},
    TableColumn{{"forward_stack", kUInt32, kNullable},
                event_or_absent<&EventColumns::forward_stack, StackId{}>},
    TableColumn{{"module", kUInt32, kNullable, Dictionary::texts}, event_modules},
};

constexpr std::array kAllocationColumns = {
    TableColumn{{"device", kLargeUtf8}, device_names<AllocationColumns>},
    TableColumn{{"address", kInt64}, plain<&AllocationColumns::address>},
    TableColumn{{"size_bytes", kInt64}, plain<&AllocationColumns::size_bytes>},
    TableColumn{{"requested_bytes", kInt64}, plain<&AllocationColumns::requested_bytes>},
    TableColumn{{"alloc_event", kUInt32, kNullable},
                with_none<&AllocationColumns::alloc_event, kNoEvent>},
    TableColumn{{"free_requested_event", kUInt32, kNullable},
                with_none<&AllocationColumns::free_requested_event, kNoEvent>},
    TableColumn{{"free_completed_event", kUInt32, kNullable},
                with_none<&AllocationColumns::free_completed_event, kNoEvent>},
    TableColumn{{"stream", kUInt32}, plain<&AllocationColumns::stream>},
    TableColumn{{"stack", kUInt32, kNullable}, with_none<&AllocationColumns::stack, StackId{}>},
    TableColumn{{"segment", kUInt32, kNullable},
                with_none<&AllocationColumns::segment, SegmentId{}>},
    TableColumn{{"source", kInt8, false, Dictionary::sources}, allocation_sources},
    TableColumn{{"name", kUInt32, kNullable, Dictionary::texts}, allocation_names},
    TableColumn{{"tag", kUInt32, kNullable, Dictionary::texts}, allocation_tags},
    TableColumn{{"step", kUInt32, kNullable}, allocation_steps},
    TableColumn{{"time_ns", kInt64, kNullable}, allocation_times<&AllocationColumns::alloc_event>},
    TableColumn{{"free_time_ns", kInt64, kNullable},
                allocation_times<&AllocationColumns::free_requested_event>},
    TableColumn{{"file", kUInt32, kNullable, Dictionary::texts}, allocation_places<&Frame::file>},
    TableColumn{{"line", kUInt32, kNullable}, allocation_lines},
    TableColumn{{"function", kUInt32, kNullable, Dictionary::texts},
                allocation_places<&Frame::name>},
    TableColumn{{"module", kUInt32, kNullable, Dictionary::texts}, allocation_modules},
};

constexpr std::array kSegmentColumns = {
    TableColumn{{"device", kLargeUtf8}, device_names<SegmentColumns>},
    TableColumn{{"segment", kUInt32}, numbered<SegmentColumns>},
    TableColumn{{"address", kInt64}, plain<&SegmentColumns::address>},
    TableColumn{{"size_bytes", kInt64}, plain<&SegmentColumns::size_bytes>},
    TableColumn{{"birth_event", kUInt32, kNullable},
                with_none<&SegmentColumns::birth_event, kNoEvent>},
    TableColumn{{"death_event", kUInt32, kNullable},
                with_none<&SegmentColumns::death_event, kNoEvent>},
    TableColumn{{"stream", kUInt32}, plain<&SegmentColumns::stream>},
    TableColumn{{"pool", kUInt32, kNullable}, with_none<&SegmentColumns::pool, kNoPool>},
    TableColumn{{"is_expandable", kBool}, bools<&SegmentColumns::is_expandable>},
    TableColumn{{"is_small", kBool}, bools<&SegmentColumns::is_small>},
    TableColumn{{"stack", kUInt32, kNullable}, with_none<&SegmentColumns::stack, StackId{}>},
};

constexpr std::array kStackColumns = {
    TableColumn{
        {"stack", kUInt32},
        [](const Store& store, const DeviceRecord*) { return row_numbers(store.stacks().size()); }},
    TableColumn{{"caller", kUInt32, kNullable},
                [](const Store& store, const DeviceRecord*) {
                  return borrowed_with_none(store.stacks().callers(), StackId());
                }},
    TableColumn{
        {"frame", kUInt32},
        [](const Store& store, const DeviceRecord*) { return borrowed(store.stacks().frames()); }},
};

constexpr std::array kFrameColumns = {
    TableColumn{
        {"frame", kUInt32},
        [](const Store& store, const DeviceRecord*) { return row_numbers(store.frames().size()); }},
    TableColumn{{"name", kLargeUtf8}, frame_texts<&Frame::name>},
    TableColumn{{"file", kLargeUtf8}, frame_texts<&Frame::file>},
    TableColumn{{"line", kUInt32}, frame_lines},
};

}  // namespace

std::span<const TableColumn> columns_of(TableKind kind) {
  switch (kind) {
    case TableKind::events:
      return kEventColumns;
    case TableKind::allocations:
      return kAllocationColumns;
    case TableKind::segments:
      return kSegmentColumns;
    case TableKind::stacks:
      return kStackColumns;
    case TableKind::frames:
      break;
  }
  return kFrameColumns;
}

std::optional<TableKind> kind_named(std::string_view name) {
  constexpr std::array<std::string_view, 5> kNames = {"events", "allocations", "segments", "stacks",
                                                      "frames"};
  const auto* const found = std::ranges::find(kNames, name);
  if (found == kNames.end()) return std::nullopt;
  return static_cast<TableKind>(found - kNames.begin());
}

std::size_t row_count(TableKind kind, const Store& store, const DeviceRecord* device) {
  switch (kind) {
    case TableKind::events:
      return device->events.size();
    case TableKind::allocations:
      return device->allocations.size();
    case TableKind::segments:
      return device->segments.size();
    case TableKind::stacks:
      return store.stacks().size();
    case TableKind::frames:
      break;
  }
  return store.frames().size();
}

}  // namespace gpumemprof::arrow
