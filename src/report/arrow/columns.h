// The columns of every table: each with its name, its type and how its values are found in the
// store.
//
//   events ─ stack ──→ stacks ─ frame ──→ frames      stacks.caller ──→ stacks.stack, outwards
//   allocations ─ stack, segment ──→ segments         *_event ──→ events.event, same device
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "report/arrow/field.h"
#include "report/arrow/values.h"
#include "store/store.h"

namespace gpumemprof::arrow {

enum class TableKind : std::uint8_t { events, allocations, segments, stacks, frames };

struct TableColumn {
  Field field;
  // The device is null for the tables that all devices share.
  Values (*values)(const Store& store, const DeviceRecord* device);
};

std::span<const TableColumn> columns_of(TableKind kind);

// Stacks and frames are shared by all devices.
constexpr bool is_per_device(TableKind kind) {
  return kind != TableKind::stacks && kind != TableKind::frames;
}

// "events" and so on; none for another name.
std::optional<TableKind> kind_named(std::string_view name);

std::size_t row_count(TableKind kind, const Store& store, const DeviceRecord* device);

}  // namespace gpumemprof::arrow
