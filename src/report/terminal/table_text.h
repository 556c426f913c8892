// `gpumemprof table`: the allocations of a run, or the lines that made them, sorted and searched.
#pragma once

#include <string>
#include <vector>

#include "analysis/overview/overview.h"
#include "analysis/stats/run_stats.h"
#include "analysis/table/allocation_row.h"
#include "report/text/overview/overview_text.h"
#include "store/store.h"

namespace gpumemprof {

struct ShownLine {
  DeviceIndex device = 0;
  LineStats stats;
};

struct ShownTable {
  const Overview& overview;
  const Store& store;
  bool is_by_line = true;
  std::vector<ShownLine> lines;     // by line
  std::vector<AllocationRow> rows;  // else
  std::uint64_t matches = 0;        // lines or allocations
  CountedBytes matching;            // allocations
  std::string order;                // what they are sorted by
  std::string filter;               // the words searched for
  bool is_at_moment = false;        // only what is live at the moment asked about
  bool is_in_windows = false;
};

std::string table_text(const ShownTable& table, const TextStyle& style);
std::string table_json(const ShownTable& table);

}  // namespace gpumemprof
