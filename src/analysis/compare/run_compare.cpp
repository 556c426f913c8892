#include "analysis/compare/run_compare.h"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "analysis/code/shown_file.h"
#include "analysis/modules/module_index.h"

namespace gpumemprof {
namespace {

std::string frame_key(const Store& store, FrameId id) {
  if (id.is_none()) return "";
  const Frame& frame = store.frame(id);
  return shown_file(store.text(frame.file), store.program_folder()) + '\n' +
         std::to_string(frame.line) + '\n' + std::string(store.text(frame.name));
}

class GroupTable {
 public:
  void add(const std::string& key, const ComparedGroup& named, std::uint64_t bytes,
           std::uint64_t blocks, bool is_first) {
    const auto [known, is_new] = by_key_.try_emplace(key, groups_.size());
    if (is_new) {
      groups_.push_back(named);
      groups_.back().is_of_first = is_first;
    }
    ComparedGroup& group = groups_[known->second];
    (is_first ? group.first_bytes : group.second_bytes) += bytes;
    (is_first ? group.first_blocks : group.second_blocks) += blocks;
  }

  std::vector<ComparedGroup> take() {
    std::ranges::stable_sort(groups_, [](const ComparedGroup& a, const ComparedGroup& b) {
      if (difference(a) != difference(b)) return difference(a) > difference(b);
      return std::max(a.first_bytes, a.second_bytes) > std::max(b.first_bytes, b.second_bytes);
    });
    return std::move(groups_);
  }

 private:
  static std::uint64_t difference(const ComparedGroup& group) {
    return group.first_bytes > group.second_bytes ? group.first_bytes - group.second_bytes
                                                  : group.second_bytes - group.first_bytes;
  }

  std::vector<ComparedGroup> groups_;
  std::unordered_map<std::string, std::size_t> by_key_;
};

struct DeviceSide {
  const DeviceOverview* device = nullptr;  // null: this run has no such device
  const Store* store = nullptr;
  bool is_first = true;
};
using DeviceSides = std::array<DeviceSide, 2>;

std::vector<ComparedGroup> sources_of(const DeviceSides& sides) {
  GroupTable table;
  for (const DeviceSide& side : sides) {
    if (side.device == nullptr) continue;
    const SourceBytes& bytes = side.device->asked_sources;
    const auto add = [&](std::string_view name, std::uint64_t sum) {
      if (sum == 0) return;
      ComparedGroup named;
      named.name = name;
      table.add(named.name, named, sum, 0, side.is_first);
    };
    for (const MemorySourceInfo& info : kMemorySourceTable) add(info.name, bytes[info.source]);
    add("rounding", bytes.rounding);
  }
  return table.take();
}

std::vector<ComparedGroup> lines_of(const DeviceSides& sides) {
  GroupTable table;
  for (const DeviceSide& side : sides) {
    if (side.device == nullptr) continue;
    for (const LiveLine& live : side.device->live_lines) {
      ComparedGroup named;
      named.frame = live.line.frame;
      named.is_backward = live.line.is_backward;
      table.add(frame_key(*side.store, named.frame) + (named.is_backward ? "\nbackward" : ""),
                named, live.line.bytes, live.line.blocks, side.is_first);
    }
  }
  return table.take();
}

void add_modules(const DeviceSide& side, GroupTable& table) {
  const DeviceSources& sources = side.device->sources;
  std::uint64_t inside_bytes = 0;
  for (const ModuleNode& node : sources.modules) {
    if (node.parent == ModuleNode::kNoParent) inside_bytes += node.bytes;
    if (node.self_bytes == 0) continue;
    ComparedGroup named;
    if (sources.has_module_instances) {
      named.name = layer_name_of(node.name);
    } else {
      named.frame = node.frame;
    }
    const std::string key =
        sources.has_module_instances ? "m" + named.name : "l" + frame_key(*side.store, named.frame);
    // Blocks are counted with those of the modules inside.
    table.add(key, named, node.self_bytes, 0, side.is_first);
  }
  if (inside_bytes >= sources.peak_bytes) return;
  ComparedGroup outside;
  outside.name = kOutsideModules;
  table.add("o", outside, sources.peak_bytes - inside_bytes, 0, side.is_first);
}

std::optional<std::vector<ComparedGroup>> modules_of(const DeviceSides& sides) {
  GroupTable table;
  std::optional<bool> has_instances;
  bool has_any = false;
  for (const DeviceSide& side : sides) {
    // The modules are those of the peak.
    if (side.device == nullptr || side.device->sources.modules.empty()) continue;
    if (has_instances.value_or(side.device->sources.has_module_instances) !=
        side.device->sources.has_module_instances)
      return std::nullopt;
    has_instances = side.device->sources.has_module_instances;
    has_any = true;
  }
  if (!has_any) return std::nullopt;
  for (const DeviceSide& side : sides) {
    if (side.device != nullptr) add_modules(side, table);
  }
  return table.take();
}

std::optional<DeviceComparison::Side> side_of(const DeviceSide& side) {
  if (side.device == nullptr) return std::nullopt;
  const DeviceReplay& replay = side.device->replay;
  DeviceComparison::Side made;
  made.device = side.device->name;
  made.moment = side.device->asked;
  made.allocated_bytes = side.device->totals.allocated_bytes;
  if (replay.has_history && side.store->facts().has_pool())
    made.peak_reserved_bytes = replay.peak_reserved_bytes;
  made.is_exact = replay.has_history ? replay.exact_from_event.has_value() : replay.has_end;
  return made;
}

}  // namespace

bool GrowthLimit::is_exceeded(std::uint64_t first_bytes, std::uint64_t second_bytes) const {
  if (second_bytes <= first_bytes) return false;
  const std::uint64_t growth = second_bytes - first_bytes;
  if (!percent) return growth > bytes;
  constexpr long double kWhole = 100;
  return kWhole * static_cast<long double>(growth) >
         static_cast<long double>(*percent) * static_cast<long double>(first_bytes);
}

std::vector<DeviceComparison> compare_runs(const ReportedSide& first, const ReportedSide& second) {
  const auto compared = [&](const DeviceOverview* a, const DeviceOverview* b) {
    const DeviceSides sides = {DeviceSide{a, first.store, true},
                               DeviceSide{b, second.store, false}};
    return DeviceComparison{(a != nullptr ? a : b)->name,
                            side_of(sides[0]),
                            side_of(sides[1]),
                            sources_of(sides),
                            lines_of(sides),
                            modules_of(sides)};
  };
  if (first.overview->devices.size() == 1 && second.overview->devices.size() == 1)
    return {compared(first.overview->devices.data(), second.overview->devices.data())};
  std::vector<std::string> names;
  for (const Overview* const overview : {first.overview, second.overview}) {
    for (const DeviceOverview& device : overview->devices) {
      if (std::ranges::find(names, device.name) == names.end()) names.push_back(device.name);
    }
  }
  const auto find = [](const ReportedSide& side, const std::string& name) {
    const auto found = std::ranges::find(side.overview->devices, name, &DeviceOverview::name);
    return found == side.overview->devices.end() ? nullptr : &*found;
  };
  std::vector<DeviceComparison> all;
  for (const std::string& name : names)
    all.push_back(compared(find(first, name), find(second, name)));
  return all;
}

bool are_peaks_known(const ReportedSide& side) {
  if (!side.overview->completeness.is_whole()) return false;
  return std::ranges::all_of(side.overview->devices, [](const DeviceOverview& device) {
    return device.replay.has_history && device.replay.exact_from_event.has_value();
  });
}

bool exceeds(const std::vector<DeviceComparison>& devices, const GrowthLimit& limit) {
  return std::ranges::any_of(devices, [&](const DeviceComparison& device) {
    if (!device.second) return false;
    // What cannot be compared is not known to be within a limit.
    if (!device.first) return device.second->allocated_bytes > 0;
    return limit.is_exceeded(device.first->allocated_bytes, device.second->allocated_bytes);
  });
}

}  // namespace gpumemprof
