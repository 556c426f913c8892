#include "session/tables/run_tables.h"

#include "report/about/about.h"

namespace gpumemprof {
namespace {

arrow::Values numbers_or_null(const std::vector<std::uint32_t>& numbers, std::uint32_t none) {
  return arrow::made_with_none(numbers.size(), none, [&](std::size_t row) { return numbers[row]; });
}

SmallTable about_table(const TabledRun& run) {
  SmallTable table{"about", {"name", "value"}, {}};
  for (const auto& [name, value] : about_run(run.path(), run.store(), run.completeness()))
    table.rows.push_back({name, value});
  return table;
}

void show_events(const TableWindow& window, const TableShow& show) {
  TablePart part{"events", window.store, arrow::TableKind::events, &window.record};
  part.other["event"] = numbers_or_null(window.event_numbers, kNoEvent);
  part.first = window.first_event;
  part.count = window.events;
  show.part(part);
}

void show_allocations(const TableWindow& window, const TableShow& show) {
  TablePart part{"allocations", window.store, arrow::TableKind::allocations, &window.record};
  part.other["alloc_event"] = numbers_or_null(window.births, kNoEvent);
  part.other["free_requested_event"] = numbers_or_null(window.frees, kNoEvent);
  part.other["free_completed_event"] = numbers_or_null(window.completions, kNoEvent);
  part.other["step"] = numbers_or_null(window.steps, 0);
  part.rows = &window.rows;
  show.part(part);
}

void show_segments(const TableWindow& window, const TableShow& show) {
  TablePart part{"segments", window.store, arrow::TableKind::segments, &window.record};
  part.other["birth_event"] = numbers_or_null(window.segment_births, kNoEvent);
  part.other["death_event"] = numbers_or_null(window.segment_deaths, kNoEvent);
  part.count = window.record.segments.size();
  show.part(part);
}

void show_shared(std::string_view name, arrow::TableKind kind, const Store& store,
                 const TableShow& show) {
  TablePart part{name, store, kind};
  part.count = arrow::row_count(kind, store, nullptr);
  show.part(part);
}

}  // namespace

Status show_tables(TabledRun& run, std::optional<DeviceIndex> device, const TableShow& show) {
  std::string known;
  bool is_there = !device;
  for (const TabledRun::Device& one : run.devices()) {
    known += (known.empty() ? "" : ", ") + run.store().device_name(one.device);
    is_there = is_there || (device && one.device == *device);
  }
  if (device && !is_there) return no_such_device(run.path(), *device, known);
  // First: who writes the others may want to say in each of them what is missing.
  if (show.is_wanted("about")) show.small(about_table(run));
  RunTablesSum sum;
  const bool is_summed = show.is_wanted("steps") || show.is_wanted("sources");
  Status shown = run.show([&](const TableWindow& window) {
    if (device && window.record.device != *device) return;
    if (show.is_wanted("events")) show_events(window, show);
    if (show.is_wanted("allocations")) show_allocations(window, show);
    if (show.is_wanted("segments") && window.is_last) show_segments(window, show);
    if (is_summed)
      sum.add({window.record, window.first_event, window.events, window.first_number == 0},
              window.spans, window.first_number, window.replay,
              window.store.device_name(window.record.device));
  });
  if (!shown) return shown;
  if (show.is_wanted("stacks")) show_shared("stacks", arrow::TableKind::stacks, run.store(), show);
  if (show.is_wanted("frames")) show_shared("frames", arrow::TableKind::frames, run.store(), show);
  if (show.is_wanted("steps")) show.small(sum.steps());
  if (show.is_wanted("sources")) show.small(sum.sources());
  return Done{};
}

}  // namespace gpumemprof
