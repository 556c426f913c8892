#include "report/view/answer_shapes.h"

#include "report/view/answers/shapes.h"

namespace gpumemprof::view {
namespace {

constexpr bool kOptional = true;

void add_recordings(std::vector<Shape>& shapes) {
  shapes.push_back(
      {"DeviceMeta",
       "What the page must know about a device before it can ask for anything.",
       {{"name", "string"},
        {"events", "number"},
        {"allocations", "number"},
        {"duration_ns", "number | null"},
        {"deepest_level", "number"},
        {"has_history", "boolean"},
        {"has_pool", "boolean"},
        {"exact_from_event", "number | null"},
        {"peak_position", "number"},
        {"peak_bytes", "number"},
        {"peak_reserved_bytes", "number | null"},
        {"group_bys", "GroupBy[]", "The most informative first."},
        {"flame_bys", "FlameBy[]", "By tag only if anything was tagged."},
        {"has_module_instances", "boolean",
         "False: modules are distinguished only by the line of their forward()."},
        {"sources", "string[]", "What the numbers of sources stand for; empty: none is known."},
        {"is_long", "boolean",
         "Too long for memory: only what is live at a moment or in a short range can be listed.",
         kOptional},
        {"index_events", "number", "Then: the finest interval that its index knows.", kOptional},
        {"listed_events", "number", "Then: the longest range that can be listed.", kOptional}}});
  shapes.push_back({"Completeness",
                    "As in the output of `gpumemprof report --json`, among much else.",
                    {{"what_is_missing", "string[]",
                      "Sentences; empty if nothing is known to be missing.", kOptional}},
                    "",
                    true});
  shapes.push_back({"FileMeta",
                    "",
                    {{"name", "string"},
                     {"path", "string"},
                     {"kind", "string"},
                     {"cut", "string | null"},
                     {"completeness", "Completeness"},
                     {"devices", "DeviceMeta[]"}}});
  shapes.push_back({"Meta", "", {{"version", "string"}, {"files", "FileMeta[]"}}});
}

void add_leaks(std::vector<Shape>& shapes) {
  shapes.push_back({"LeakSite",
                    "A line whose memory grows; empty fields are null.",
                    {{"file", "string | null"},
                     {"line", "number | null"},
                     {"function", "string | null"},
                     {"is_backward", "boolean"},
                     {"bytes_per_step", "number"},
                     {"bytes", "number"},
                     {"blocks", "number"},
                     {"first_step", "number"},
                     {"oldest_age_steps", "number"},
                     {"source", "string"},
                     {"held_by", "string | null"},
                     {"advice", "string"},
                     {"doubt", "string | null"},
                     {"steps_to_oom", "number | null"}},
                    "",
                    true});
  shapes.push_back({"ReportLeaks",
                    "",
                    {{"verdict", "string"}, {"lines", "number"}, {"sites", "LeakSite[]"}},
                    "",
                    true});
}

void add_report(std::vector<Shape>& shapes) {
  shapes.push_back(
      {"ReportFrame", "", {{"name", "string"}, {"file", "string"}, {"line", "number"}}, "", true});
  shapes.push_back({"ReportStack",
                    "",
                    {{"stack", "ReportFrame[]"}, {"bytes", "number"}, {"blocks", "number"}},
                    "",
                    true});
  shapes.push_back({"ReportPeak",
                    "",
                    {{"allocated_bytes", "number | null"},
                     {"reserved_bytes", "number | null"},
                     {"event_index", "number | null"}},
                    "",
                    true});
  shapes.push_back({"ReportTotals",
                    "",
                    {{"allocated_bytes", "number"}, {"reserved_bytes", "number"}},
                    "",
                    true});
  shapes.push_back({"ReportPin",
                    "",
                    {{"segments", "number"},
                     {"free_bytes", "number"},
                     {"pin_bytes", "number"},
                     {"frame", "ReportFrame | null"}},
                    "",
                    true});
  shapes.push_back({"ReportPins", "", {{"lines", "ReportPin[]"}}, "", true});
  shapes.push_back({"ReportMoment",
                    "",
                    {{"free", "Record<string, unknown>"},
                     {"pins", "ReportPins"},
                     {"live", "ReportStack[]", "", kOptional}},
                    "",
                    true});
  shapes.push_back({"ReportOom",
                    "",
                    {{"event_index", "number | null"},
                     {"wanted_bytes", "number"},
                     {"reserved_bytes", "number"},
                     {"largest_free_bytes", "number"},
                     {"cause", "string"}},
                    "",
                    true});
  add_leaks(shapes);
  shapes.push_back({"ReportDevice",
                    "",
                    {{"device", "string"},
                     {"events", "number"},
                     {"peak", "ReportPeak"},
                     {"peak_reserved_bytes", "number | null"},
                     {"end", "ReportTotals"},
                     {"counters", "Record<string, number | null>"},
                     {"live_at_peak", "ReportStack[] | null"},
                     {"at", "ReportMoment"},
                     {"leaks", "ReportLeaks | null"},
                     {"oom_reports", "ReportOom[]"}},
                    "",
                    true});
  shapes.push_back({"ReportData",
                    "The parts of `gpumemprof report --json` that the page shows.",
                    {{"devices", "ReportDevice[]"}},
                    "",
                    true});
  add_verdicts(shapes);
  shapes.push_back(
      {"Report",
       "The report as data and as text, and its first sentences.",
       {{"report", "ReportData"}, {"text", "string"}, {"verdicts", "DeviceVerdict[]"}}});
}

void add_timeline(std::vector<Shape>& shapes) {
  shapes.push_back({"FrameRow",
                    "Name, file, line, and 1 for the user's own code.",
                    {},
                    "[string, string, number, number]"});
  shapes.push_back(
      {"Group",
       "",
       {{"label", "string"},
        {"is_rest", "boolean"},
        {"is_undivided", "boolean",
         "Of a long run: all memory where the timeline shows too much of it.", kOptional},
        {"frames", "FrameRow[]", "By stack.", kOptional}}});
  shapes.push_back({"Groups", "", {{"by", "GroupBy"}, {"groups", "Group[]"}}});
  shapes.push_back({"TileAnswer",
                    "As sent: deltas from bucket to bucket.",
                    {{"min", "number[]"},
                     {"max", "number[]"},
                     {"position", "number[]"},
                     {"reserved", "number[]", "Empty: the device has no pool."},
                     {"groups", "number[][]"}}});
  shapes.push_back({"SpanKind", "", {}, "\"step\" | \"phase\" | \"evaluation\" | \"annotation\""});
  shapes.push_back({"Span",
                    "",
                    {{"name", "string"},
                     {"from", "number"},
                     {"to", "number"},
                     {"from_ns", "number | null"},
                     {"to_ns", "number | null"},
                     {"lane", "number"},
                     {"kind", "SpanKind"},
                     {"count", "number",
                      "If several narrower than a pixel are merged into one: how many.", kOptional},
                     {"last_name", "string", "The last of them.", kOptional}}});
  shapes.push_back({"SpanTile", "", {{"spans", "Span[]"}, {"left_out", "number"}}});
  shapes.push_back({"OverlayOom",
                    "",
                    {{"position", "number"},
                     {"time_ns", "number | null"},
                     {"wanted_bytes", "number"},
                     {"allocated_bytes", "number"},
                     {"reserved_bytes", "number"},
                     {"label", "string"}}});
  shapes.push_back({"TimelineOverlays",
                    "",
                    {{"lanes", "number"},
                     {"spans", "number"},
                     {"spans_too_deep", "number"},
                     {"ooms", "OverlayOom[]"},
                     {"ooms_left_out", "number"},
                     {"card_bytes", "number | null"},
                     {"limit_bytes", "number | null"},
                     {"is_limit_inferred", "boolean"}}});
}

void add_moments(std::vector<Shape>& shapes) {
  shapes.push_back({"Moment",
                    "",
                    {{"position", "number"},
                     {"time_ns", "number | null"},
                     {"allocated_bytes", "number"},
                     {"reserved_bytes", "number | null"}}});
  shapes.push_back({"GroupBytes", "What each group holds at a moment.", {{"groups", "number[]"}}});
  shapes.push_back({"FlameFrame",
                    "Name, file, line, label; a module instance or a tag has only the name, and "
                    "line 0; null: none was recorded.",
                    {},
                    "[string, string, number, string] | null"});
  shapes.push_back({"Flame",
                    "",
                    {{"position", "number"},
                     {"allocated_bytes", "number"},
                     {"blocks", "number"},
                     {"nodes_left_out", "number"},
                     {"frames", "FlameFrame[]"},
                     {"parent", "number[]", "-1: none."},
                     {"frame", "number[]"},
                     {"bytes", "number[]"},
                     {"self_bytes", "number[]"},
                     {"node_blocks", "number[]"}}});
  shapes.push_back({"SegmentRow",
                    "",
                    {{"address", "string"},
                     {"size", "number"},
                     {"free", "number"},
                     {"stream", "string"},
                     {"pool", "[number, number] | null"},
                     {"is_small", "boolean"},
                     {"is_expandable", "boolean"},
                     {"pin", "number | null"},
                     {"blocks", "number"}}});
  shapes.push_back({"Segments",
                    "Blocks tile their segments, so their sizes give their places.",
                    {{"position", "number"},
                     {"reserved_bytes", "number"},
                     {"allocated_bytes", "number"},
                     {"waiting_bytes", "number"},
                     {"free_bytes", "number"},
                     {"segments", "SegmentRow[]"},
                     {"size", "number[]"},
                     {"row", "number[]", "-1: free."},
                     {"group", "number[]", "-1 - group: waiting for a stream."},
                     {"label", "number[]"},
                     {"labels", "string[]"}}});
}

void add_allocations(std::vector<Shape>& shapes) {
  shapes.push_back(
      {"Allocations",
       "",
       {{"matches", "number"},
        {"matching_bytes", "number"},
        {"row", "number[]"},
        {"size", "number[]"},
        {"requested", "number[]"},
        {"birth", "number[]"},
        {"death", "(number | null)[]"},
        {"goes_on", "boolean[]",
         "Of a long run: freed later than was read, or never; its lifetime is longer.", kOptional},
        {"birth_ns", "(number | null)[]"},
        {"lifetime", "number[]"},
        {"source", "(number | null)[]"},
        {"stack", "(number | null)[]"},
        {"forward_stack", "(number | null)[]"},
        {"label", "number[]"},
        {"name", "(string | null)[]", "Of tensors."},
        {"tag", "(string | null)[]"},
        {"labels", "string[]"}}});
  shapes.push_back({"Allocation",
                    "",
                    {{"row", "number"},
                     {"address", "string",
                      "Unknown in a page that holds only part of the history, as are "
                      "other optional ones.",
                      kOptional},
                     {"size", "number"},
                     {"requested", "number"},
                     {"birth", "number"},
                     {"death", "number | null"},
                     {"reusable", "number | null", "", kOptional},
                     {"birth_ns", "number | null"},
                     {"death_ns", "number | null", "", kOptional},
                     {"lifetime", "number"},
                     {"stream", "string | null", "", kOptional},
                     {"source", "number | null"},
                     {"is_source_measured", "boolean | null", "", kOptional},
                     {"name", "string | null"},
                     {"tag", "string | null"},
                     {"module", "string | null", "", kOptional},
                     {"label", "string"},
                     {"frames", "FrameRow[]"},
                     {"forward_frames", "FrameRow[]"}}});
  shapes.push_back({"ComparedGroup",
                    "",
                    {{"label", "string"},
                     {"first_bytes", "number"},
                     {"first_blocks", "number"},
                     {"second_bytes", "number"},
                     {"second_blocks", "number"},
                     {"frames", "FrameRow[]", "By stack.", kOptional}}});
  shapes.push_back({"Comparison",
                    "",
                    {{"groups", "ComparedGroup[]"},
                     {"groups_left_out", "number"},
                     {"first_bytes", "number"},
                     {"second_bytes", "number"}}});
}

// Lists of numbers are deltas from row to row.
void add_standalone(std::vector<Shape>& shapes) {
  shapes.push_back({"Embedded",
                    "What a standalone page says about itself.",
                    {{"deepest_level", "number"}, {"left_out", "string[]", "Sentences."}}});
  shapes.push_back({"KnownMoments",
                    "The moments that a standalone page without the whole history knows: one for "
                    "each bucket of a level. As sent: deltas.",
                    {{"level", "number"},
                     {"position", "number[]"},
                     {"allocated", "number[]"},
                     {"reserved", "number[]"},
                     {"time_ns", "number[]"}}});
  shapes.push_back(
      {"FlameColumns",
       "The tree of a whole run's flame graphs, and the node of each allocation.",
       {{"parent", "number[]"},
        {"frame", "number[]"},
        {"name", "number[]", "For module instances and tags, as indices into `names`.", kOptional},
        {"names", "string[]", "", kOptional},
        {"of_row", "number[]"}}});
  shapes.push_back({"SegmentColumns",
                    "",
                    {{"address", "number[]"},
                     {"size", "number[]"},
                     {"birth", "number[]"},
                     {"death", "number[]"},
                     {"stream", "number[]"},
                     {"is_small", "number[]"},
                     {"is_expandable", "number[]"},
                     {"pool", "number[]"},
                     {"pools", "([number, number] | null)[]"}}});
  shapes.push_back({"GroupingColumns",
                    "",
                    {{"count", "number"},
                     {"rounding", "number",
                      "The group of bytes beyond what was requested; -1: "
                      "none."},
                     {"of_row", "number[]"}}});
  shapes.push_back({"HistoryAnswer",
                    "A device's whole history. As sent: deltas from row to row.",
                    {{"address", "number[]"},
                     {"size", "number[]"},
                     {"requested", "number[]"},
                     {"birth", "number[]"},
                     {"death", "number[]"},
                     {"reusable", "number[]"},
                     {"stack", "number[]"},
                     {"forward_stack", "number[]"},
                     {"stream", "number[]"},
                     {"streams", "string[]"},
                     {"source", "number[]", "", kOptional},
                     {"is_measured", "number[]", "", kOptional},
                     {"name", "number[]", "", kOptional},
                     {"names", "string[]", "", kOptional},
                     {"tag", "number[]", "", kOptional},
                     {"tags", "string[]", "", kOptional},
                     {"pending_at_start", "number[]", "Rows, not deltas."},
                     {"time_ns", "number[]", "Of events.", kOptional},
                     {"segments", "SegmentColumns"},
                     {"groupings", "Record<string, GroupingColumns>"},
                     {"flame_stack", "FlameColumns"},
                     {"flame_module", "FlameColumns"},
                     {"flame_tag", "FlameColumns", "If anything was tagged.", kOptional},
                     {"labels", "string[]"},
                     {"stack_caller", "number[]"},
                     {"stack_frame", "number[]"},
                     {"frames", "[string, string, number, number, string, string][]",
                      "Name, file, line, own, label, file as stacks show it."}}});
}

}  // namespace

std::span<const Shape> answer_shapes() {
  static const std::vector<Shape> kShapes = [] {
    std::vector<Shape> shapes;
    add_recordings(shapes);
    add_report(shapes);
    add_timeline(shapes);
    add_moments(shapes);
    add_allocations(shapes);
    add_steps(shapes);
    add_advice(shapes);
    add_tried(shapes);
    add_range_shapes(shapes);
    add_standalone(shapes);
    return shapes;
  }();
  return kShapes;
}

}  // namespace gpumemprof::view
