#include "report/view/view_json.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "analysis/completeness/completeness.h"
#include "base/printable.h"
#include "event/memory_source.h"
#include "report/json/completeness_json.h"
#include "report/text/place.h"
#include "report/text/text_format.h"
#include "report/view/labels.h"

namespace gpumemprof::view {
namespace {

Json device_json(const Store& store, const DeviceMeta& device) {
  const DeviceReplay& replay = *device.replay;
  Json bys = Json::array();
  for (const GroupBy by : device.group_bys) bys.push_back(group_by_name(by));
  const bool has_pool = store.facts().has_pool();
  Json json;
  json["name"] = store.device_name(device.device);
  json["events"] = device.events;
  json["allocations"] = device.allocations;
  json["duration_ns"] = time_or_null(device.duration_ns);
  json["deepest_level"] = device.deepest_level;
  json["has_history"] = replay.has_history;
  json["has_pool"] = has_pool;
  json["exact_from_event"] = replay.exact_from_event ? Json(*replay.exact_from_event) : Json();
  json["peak_position"] = birth_position(replay.peak_event);
  json["peak_bytes"] =
      replay.has_history ? replay.peak.allocated_bytes : replay.end.totals.allocated_bytes;
  json["peak_reserved_bytes"] =
      has_pool ? Json(std::max(replay.peak_reserved_bytes, replay.end.totals.reserved_bytes))
               : Json();
  json["group_bys"] = bys;
  json["flame_bys"] = Json::array();
  for (const FlameBy by : device.flame_bys) json["flame_bys"].push_back(flame_by_name(by));
  // False: modules are distinguished only by the line of their forward().
  json["has_module_instances"] = store.has_module_numbers();
  json["sources"] = Json::array();
  if (device.has_sources) {
    for (std::size_t source = 0; source < kMemorySourceCount; ++source)
      json["sources"].push_back(memory_source_name(static_cast<MemorySource>(source)));
  }
  if (device.is_long) {
    json["is_long"] = true;
    json["index_events"] = device.index_events;
    json["listed_events"] = device.listed_events;
  }
  return json;
}

// A list of differences: most are 0, and a browser sums a tile quickly.
template <typename T>
void append_differences(std::string& out, const std::vector<T>& values) {
  out += '[';
  T before = 0;
  bool is_first = true;
  for (const T value : values) {
    if (!is_first) out += ',';
    is_first = false;
    out += std::to_string(value >= before ? static_cast<std::int64_t>(value - before)
                                          : -static_cast<std::int64_t>(before - value));
    before = value;
  }
  out += ']';
}

Json since(std::int64_t run_start_ns, std::int64_t time_ns) {
  const bool is_known = time_ns != kUnknownTime && run_start_ns != kUnknownTime;
  return is_known ? Json(time_ns - run_start_ns) : Json();
}

std::string_view span_kind_name(SpanKind kind) {
  constexpr std::string_view kNames[] = {"step", "phase", "evaluation", "annotation"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string group_label(const Store& store, const Grouping& grouping, const Group& group) {
  if (group.is_undivided) return "not divided at this zoom";
  if (group.is_rest && group.members == 0) return "others";
  if (group.is_rest) return text::counted(group.members, "other");
  if (!group.name.empty()) return shown(group.name);
  const std::string label = grouping.by == GroupBy::stack
                                ? stack_label(store, group.stack)
                                : frame_label(store, group.frame, grouping.by);
  return group.is_backward ? std::string(kInBackward) + label : label;
}

}  // namespace

std::string meta_json(const std::vector<FileMeta>& files, std::string_view version) {
  Json json = {{"version", version}, {"files", Json::array()}};
  for (const FileMeta& file : files) {
    Json devices = Json::array();
    for (const DeviceMeta& device : file.devices)
      devices.push_back(device_json(*file.store, device));
    const Origin& origin = file.store->origin();
    json["files"].push_back({{"name", text::file_name(file.path)},
                             {"path", printable(file.path)},
                             {"kind", origin.kind},
                             {"cut", origin.cut ? Json(origin.cut->reason) : Json()},
                             {"completeness", completeness_json(file.completeness)},
                             {"devices", devices}});
  }
  return dump(json);
}

std::string report_json(std::string_view overview_json, std::string_view overview_text,
                        std::string_view verdicts) {
  return fmt::format(R"({{"report":{},"text":{},"verdicts":{}}})", overview_json,
                     dump(Json(overview_text)), verdicts);
}

std::string groups_json(const Store& store, const Grouping& grouping) {
  Json groups = Json::array();
  for (const Group& group : grouping.groups) {
    groups.push_back({{"label", group_label(store, grouping, group)}, {"is_rest", group.is_rest}});
    if (group.is_undivided) groups.back()["is_undivided"] = true;
    if (!group.stack.is_none()) groups.back()["frames"] = stack_frames(store, group.stack);
  }
  return dump({{"by", group_by_name(grouping.by)}, {"groups", groups}});
}

std::string tile_json(const Tile& tile) {
  std::string out = R"({"min":)";
  append_differences(out, tile.min_bytes);
  out += R"(,"max":)";
  append_differences(out, tile.max_bytes);
  out += R"(,"position":)";
  append_differences(out, tile.max_position);
  out += R"(,"reserved":)";
  append_differences(out, tile.reserved_bytes);
  out += R"(,"groups":[)";
  for (std::size_t group = 0; group < tile.group_bytes.size(); ++group) {
    if (group > 0) out += ',';
    append_differences(out, tile.group_bytes[group]);
  }
  return out + "]}";
}

std::string overlays_json(const Store& store, std::int64_t run_start_ns,
                          const TimelineOverlays& overlays, const SpanCounts& spans) {
  Json ooms = Json::array();
  for (const OverlayOom& oom : overlays.ooms) {
    ooms.push_back({{"position", oom.position},
                    {"time_ns", since(run_start_ns, oom.time_ns)},
                    {"wanted_bytes", oom.wanted_bytes},
                    {"allocated_bytes", oom.allocated_bytes},
                    {"reserved_bytes", oom.reserved_bytes},
                    {"label", stack_label(store, oom.stack)}});
  }
  return dump({{"lanes", spans.lanes},
               {"spans", spans.spans},
               {"spans_too_deep", spans.too_deep},
               {"ooms", ooms},
               {"ooms_left_out", overlays.ooms_left_out},
               {"card_bytes", overlays.card_bytes ? Json(*overlays.card_bytes) : Json()},
               {"limit_bytes", overlays.limit_bytes ? Json(*overlays.limit_bytes) : Json()},
               {"is_limit_inferred", overlays.is_limit_inferred}});
}

std::string spans_json(std::int64_t run_start_ns, const SpanTile& tile) {
  Json rows = Json::array();
  for (const DrawnSpan& span : tile.spans) {
    Json row = {{"name", shown(span.name)},
                {"from", span.from},
                {"to", span.to},
                {"from_ns", since(run_start_ns, span.from_ns)},
                {"to_ns", since(run_start_ns, span.to_ns)},
                {"lane", span.lane},
                {"kind", span_kind_name(span.kind)}};
    if (span.count > 1) {
      row["count"] = span.count;
      row["last_name"] = shown(span.last_name);
    }
    rows.push_back(std::move(row));
  }
  return dump({{"spans", rows}, {"left_out", tile.left_out}});
}

std::string group_bytes_json(std::span<const std::uint64_t> group_bytes) {
  return dump({{"groups", std::vector<std::uint64_t>(group_bytes.begin(), group_bytes.end())}});
}

std::string flame_json(const Store& store, const Flame& flame, Position position) {
  // Columns, and each frame once: a flame graph has thousands of nodes.
  Json parent = Json::array();
  Json frame = Json::array();
  Json bytes = Json::array();
  Json self = Json::array();
  Json blocks = Json::array();
  Json frames = Json::array();
  using Named = std::pair<FrameId, StringId>;
  std::map<Named, std::size_t> known;
  for (const FlameNode& node : flame.nodes) {
    const bool is_new = known.try_emplace({node.frame, node.name}, frames.size()).second;
    if (!is_new) continue;
    if (!node.name.is_none()) {
      const std::string name = shown(store.text(node.name));
      frames.push_back({name, name, 0, name});
    } else if (node.frame.is_none()) {
      frames.push_back(Json());
    } else {
      const Frame& row = store.frame(node.frame);
      frames.push_back({shown(store.text(row.name)), shown(store.text(row.file)), row.line,
                        shown(text::place(store, node.frame))});
    }
  }
  for (const FlameNode& node : flame.nodes) {
    parent.push_back(node.parent == FlameNode::kNoParent ? -1
                                                         : static_cast<std::int64_t>(node.parent));
    frame.push_back(known.at({node.frame, node.name}));
    bytes.push_back(node.bytes);
    self.push_back(node.self_bytes);
    blocks.push_back(node.blocks);
  }
  return dump({{"position", position},
               {"allocated_bytes", flame.allocated_bytes},
               {"blocks", flame.blocks},
               {"nodes_left_out", flame.nodes_left_out},
               {"frames", frames},
               {"parent", parent},
               {"frame", frame},
               {"bytes", bytes},
               {"self_bytes", self},
               {"node_blocks", blocks}});
}

std::string moment_json(const MomentFacts& facts) {
  return dump({{"position", facts.position},
               {"time_ns", time_or_null(facts.since_first_ns)},
               {"allocated_bytes", facts.allocated_bytes},
               {"reserved_bytes", bytes_or_null(facts.reserved_bytes)}});
}

std::string known_json(std::uint32_t level, std::span<const MomentFacts> moments) {
  std::vector<Position> position;
  std::vector<std::uint64_t> allocated;
  std::vector<std::uint64_t> reserved;
  std::vector<std::int64_t> time;
  for (const MomentFacts& facts : moments) {
    position.push_back(facts.position);
    allocated.push_back(facts.allocated_bytes);
    if (facts.reserved_bytes != kUnknownBytes) reserved.push_back(facts.reserved_bytes);
    // Position 0 is before the first event and has no time: use the start of the run.
    if (facts.since_first_ns != kUnknownTime || (facts.position == 0 && time.empty()))
      time.push_back(facts.position == 0 ? 0 : facts.since_first_ns);
  }
  std::string out = fmt::format(R"({{"level":{},"position":)", level);
  append_differences(out, position);
  out += R"(,"allocated":)";
  append_differences(out, allocated);
  out += R"(,"reserved":)";
  append_differences(out, reserved);
  out += R"(,"time_ns":)";
  append_differences(out, time);
  return out + "}";
}

std::string compare_json(const Store& first, const Store& second, const Comparison& comparison,
                         GroupBy by, std::size_t most_groups) {
  Json groups = Json::array();
  for (const ComparedGroup& group : comparison.groups) {
    if (groups.size() == most_groups) break;
    const Store& store = group.is_of_first ? first : second;
    std::string label = group.name;
    if (label.empty() && !group.frame.is_none()) label = shown(text::place(store, group.frame));
    if (label.empty() && !group.stack.is_none()) label = stack_label(store, group.stack);
    if (label.empty()) label = frame_label(store, {}, by);
    if (group.is_backward) label.insert(0, kInBackward);
    groups.push_back({{"label", label},
                      {"first_bytes", group.first_bytes},
                      {"first_blocks", group.first_blocks},
                      {"second_bytes", group.second_bytes},
                      {"second_blocks", group.second_blocks}});
    if (!group.stack.is_none()) groups.back()["frames"] = stack_frames(store, group.stack);
  }
  return dump({{"groups", groups},
               {"groups_left_out", comparison.groups.size() - groups.size()},
               {"first_bytes", comparison.first_bytes},
               {"second_bytes", comparison.second_bytes}});
}

std::string error_json(std::string_view message) { return dump({{"error", message}}); }

std::string working_json(std::string_view what, std::uint64_t done, std::uint64_t total,
                         std::string_view so_far) {
  return fmt::format(R"({{"what":{},"done":{},"total":{},"so_far":{}}})", dump(what), done, total,
                     so_far.empty() ? "null" : so_far);
}

std::string embedded_json(std::uint32_t deepest_level, const std::vector<std::string>& left_out) {
  return dump({{"deepest_level", deepest_level}, {"left_out", left_out}});
}

}  // namespace gpumemprof::view
