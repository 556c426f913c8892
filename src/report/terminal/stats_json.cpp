#include <nlohmann/json.hpp>

#include "report/terminal/line_stats_json.h"
#include "report/terminal/stats_text.h"

namespace gpumemprof {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kStatsSchemaVersion = 1;

Json sizes_json(const DeviceStats& stats) {
  Json bins = Json::array();
  for (const auto& [size, bin] : stats.by_size) {
    constexpr unsigned kBits = 64;
    Json entry = {{"up_to_bytes", size < kBits ? Json(std::uint64_t{1} << size) : Json()}};
    entry.update(terminal::counted_json(bin));
    bins.push_back(entry);
  }
  return bins;
}

Json lifetimes_json(const DeviceStats& stats) {
  Json bins = Json::array();
  for (const LifetimeBin& bin : stats.lifetimes) {
    Json entry = {{"below_us", terminal::time_us_json(bin.below_ns)}};
    entry.update(terminal::counted_json(bin.freed));
    bins.push_back(entry);
  }
  return bins;
}

Json lines_json(const std::vector<LineStats>& lines, const Store& store) {
  Json json = Json::array();
  for (const LineStats& line : lines) json.push_back(terminal::line_json(line, store));
  return json;
}

Json device_stats_json(const DeviceOverview& device, const DeviceStats& stats, const Store& store,
                       std::size_t top) {
  const DeviceReplay& replay = device.replay;
  const bool has_history = replay.has_history;
  const auto known = [&](std::uint64_t value) { return has_history ? Json(value) : Json(); };
  return {{"device", device.name},
          {"peak_allocated_bytes", known(replay.peak.allocated_bytes)},
          {"counters",
           {{"allocations", known(replay.counters.allocations)},
            {"frees", known(replay.counters.frees)}}},
          {"made", terminal::counted_json(stats.made)},
          {"requested_bytes", stats.requested_bytes},
          {"from_before", terminal::counted_json(stats.from_before)},
          {"freed", terminal::counted_json(stats.freed)},
          {"not_freed", terminal::counted_json(stats.not_freed)},
          {"by_size", sizes_json(stats)},
          {"by_lifetime", lifetimes_json(stats)},
          {"lifetime_unknown", terminal::counted_json(stats.untimed)},
          {"lines", stats.lines.size()},
          {"lines_by_bytes", lines_json(largest_lines(stats, top), store)},
          {"lines_by_count", lines_json(busiest_lines(stats, top), store)}};
}

}  // namespace

std::string stats_json(const RunCounts& counts, std::size_t top) {
  Json json = {{"schema_version", kStatsSchemaVersion},
               {"input", terminal::input_json(counts.overview, counts.store)},
               {"is_read_in_windows", counts.is_in_windows},
               {"devices", Json::array()}};
  for (const DeviceOverview& device : counts.overview.devices) {
    const DeviceStats* const stats = counts.of(device.device);
    DeviceStats none;
    none.device = device.device;
    json["devices"].push_back(
        device_stats_json(device, stats == nullptr ? none : *stats, counts.store, top));
  }
  return terminal::document(json);
}

}  // namespace gpumemprof
