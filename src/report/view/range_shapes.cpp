#include "report/view/answer_shapes.h"

namespace gpumemprof::view {
namespace {

constexpr bool kMayBeAbsent = true;

void add_ranges(std::vector<Shape>& shapes) {
  shapes.push_back({"Singles",
                    "Allocations drawn as bands of their own, in order of birth.",
                    {{"matches", "number | null",
                      "All that are live somewhere in the range; null: of a long run, not known."},
                     {"spacing", "number",
                      "0: exact. Otherwise, of a long run: only what was live at two moments that "
                      "are so many events apart is here, up to the last of these moments."},
                     {"row", "number[]"},
                     {"size", "number[]"},
                     {"requested", "number[]"},
                     {"birth", "number[]"},
                     {"death", "(number | null)[]", "null: not before the end of the range."},
                     {"group", "number[]"},
                     {"stream", "number[]", "Numbers of streams."},
                     {"streams", "string[]", "Their handles."}}});
  shapes.push_back({"RangeGroup",
                    "",
                    {{"label", "string"},
                     {"allocated_bytes", "number"},
                     {"allocated_blocks", "number"},
                     {"freed_bytes", "number"},
                     {"freed_blocks", "number"},
                     {"survived_bytes", "number"},
                     {"survived_blocks", "number"}}});
  shapes.push_back({"RangeMove",
                    "What one line allocated and another freed.",
                    {{"allocated_at", "string"},
                     {"freed_at", "string"},
                     {"bytes", "number"},
                     {"blocks", "number"}}});
  shapes.push_back({"Range",
                    "What happened between two moments.",
                    {{"from", "number"},
                     {"to", "number"},
                     {"from_bytes", "number", "Allocated at its start."},
                     {"to_bytes", "number", "And at its end."},
                     {"peak_position", "number"},
                     {"peak_bytes", "number"},
                     {"all", "RangeGroup", "Its label is empty."},
                     {"lines", "RangeGroup[]", "The largest first."},
                     {"lines_left_out", "number"},
                     {"sources", "RangeGroup[]", "Empty: they are not known."},
                     {"moves", "RangeMove[]", "Unknown in a standalone page.", kMayBeAbsent},
                     {"moves_left_out", "number", "", kMayBeAbsent}}});
  shapes.push_back({"RangeKept",
                    "Of what survived a range.",
                    {{"label", "string"}, {"bytes", "number"}, {"blocks", "number"}}});
  shapes.push_back({"RangeSoFar",
                    "What is known of a long range before all of it was read.",
                    {{"from", "number"},
                     {"to", "number"},
                     {"from_bytes", "number"},
                     {"to_bytes", "number"},
                     {"survived_bytes", "number"},
                     {"survived_blocks", "number"},
                     {"lines", "RangeKept[]", "The largest first."},
                     {"lines_left_out", "number"},
                     {"sources", "RangeKept[]", "Empty: they are not known."}}});
  shapes.push_back({"Working",
                    "Instead of an answer that takes a while.",
                    {{"what", "string"},
                     {"done", "number"},
                     {"total", "number", "0: not known."},
                     {"so_far", "RangeSoFar | null"}}});
}

void add_settings(std::vector<Shape>& shapes) {
  shapes.push_back(
      {"SimulatedRun",
       "",
       {{"alloc_conf", "string", "As in PYTORCH_CUDA_ALLOC_CONF; empty: the defaults."},
        {"peak_reserved_bytes", "number"},
        {"ooms", "number"},
        {"is_recorded", "boolean", "The settings that the run had."}}});
  shapes.push_back({"SimulatedPart",
                    "Of a run too long for memory: what is simulated, around its peak.",
                    {{"from_event", "number"},
                     {"to_event", "number"},
                     {"first_step", "number | null"},
                     {"last_step", "number | null"}}});
  shapes.push_back({"SimulatedSettings",
                    "",
                    {{"is_exact", "boolean",
                      "Simulated under its own settings, the run is the recorded one to the byte."},
                     {"why_not", "string | null", "Why nothing was simulated."},
                     {"part", "SimulatedPart | null", "Null: the whole run."},
                     {"runs", "SimulatedRun[]", "The recorded settings first."}}});
}

}  // namespace

void add_range_shapes(std::vector<Shape>& shapes) {
  add_ranges(shapes);
  add_settings(shapes);
}

}  // namespace gpumemprof::view
