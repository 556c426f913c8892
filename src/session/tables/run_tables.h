// All tables of a recording, part by part, for whatever writes them: the columns of its events,
// allocations and segments with the numbers of the run, its stacks and frames, and small tables
// about its steps, its sources and itself.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "analysis/run_tables/run_tables.h"
#include "report/arrow/batch.h"
#include "report/arrow/columns.h"
#include "session/tables/window_tables.h"

namespace gpumemprof {

// In the order in which they are listed.
inline constexpr std::array<std::string_view, 8> kTableNames = {
    "events", "allocations", "segments", "stacks", "frames", "steps", "sources", "about"};

// A part of a table with columns in the store.
struct TablePart {
  std::string_view name;
  const Store& store;
  arrow::TableKind kind;
  const DeviceRecord* device = nullptr;
  arrow::OtherValues other = {};  // that stand for those of the record
  // The rows of it: these, or the range.
  const std::vector<std::uint32_t>* rows = nullptr;
  std::size_t first = 0;
  std::size_t count = 0;
};

struct TableShow {
  std::function<bool(std::string_view name)> is_wanted;
  std::function<void(TablePart& part)> part;
  std::function<void(const SmallTable& table)> small;
};

// Only of this device, if there is one. Call it once for a run.
Status show_tables(TabledRun& run, std::optional<DeviceIndex> device, const TableShow& show);

}  // namespace gpumemprof
