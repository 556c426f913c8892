#include "report/view/answers/shapes.h"

namespace gpumemprof::view {

void add_verdicts(std::vector<Shape>& shapes) {
  shapes.push_back(
      {"DeviceVerdict",
       "What the report says first about a device, in its words; empty where it says nothing.",
       {{"device", "string"},
        {"failure", "string"},
        {"failure_details", "string[]"},
        {"remedy", "string", "What to do about the failure."},
        {"command", "string"},
        {"peak", "string"},
        {"growth", "string"},
        {"is_predicted", "boolean", "The program ran without a GPU: estimated, not measured."}}});
}

void add_steps(std::vector<Shape>& shapes) {
  shapes.push_back({"StepPhase",
                    "As in the output of `gpumemprof report --json`.",
                    {{"phase", "string"},
                     {"first_event", "number"},
                     {"last_event", "number"},
                     {"peak_bytes", "number"},
                     {"peak_event", "number | null"},
                     {"live_bytes", "number"},
                     {"saved_for_backward_bytes", "number | null"}},
                    "",
                    true});
  shapes.push_back({"StepRow",
                    "As in the output of `gpumemprof report --json`, and when it was.",
                    {{"step", "number", "From 1; 0: before the first step."},
                     {"first_event", "number"},
                     {"last_event", "number"},
                     {"peak_bytes", "number"},
                     {"peak_event", "number | null"},
                     {"floor_bytes", "number", "The least allocated in it."},
                     {"live_bytes", "number", "After its last event."},
                     {"saved_for_backward_bytes", "number"},
                     {"from_ns", "number | null"},
                     {"to_ns", "number | null"},
                     {"phases", "StepPhase[]"}},
                    "",
                    true});
  shapes.push_back(
      {"GrowthFrame", "", {{"file", "string"}, {"line", "number"}, {"name", "string"}}, "", true});
  shapes.push_back({"GrowthLine",
                    "",
                    {{"frame", "GrowthFrame | null"},
                     {"is_backward", "boolean"},
                     {"since_step", "number"},
                     {"bytes_per_step", "number"},
                     {"grown_bytes", "number"}},
                    "",
                    true});
  shapes.push_back({"StepGrowth",
                    "",
                    {{"is_growing", "boolean"},
                     {"steps", "number"},
                     {"since_step", "number | null"},
                     {"last_step", "number"},
                     {"bytes_per_step", "number"},
                     {"grown_bytes", "number"},
                     {"lines", "GrowthLine[]"}},
                    "",
                    true});
  shapes.push_back(
      {"LeakSeries",
       "What the leaking lines hold at the floor of each step.",
       {{"step", "number[]"},
        {"bytes", "number[][]", "By line, in the order of the report's sites, then by step."}}});
  shapes.push_back({"StepsAnswer",
                    "",
                    {{"steps", "StepRow[]"},
                     {"left_out", "number", "Steps between those that are listed."},
                     {"run_kind", "string"},
                     {"growth", "StepGrowth | null", "Null: too few steps to tell."},
                     {"leaks", "ReportLeaks | null"},
                     {"series", "LeakSeries | null"}}});
}

void add_advice(std::vector<Shape>& shapes) {
  shapes.push_back({"Band", "", {{"low_bytes", "number"}, {"high_bytes", "number"}}, "", true});
  shapes.push_back({"AdvisedRemedy",
                    "As in the output of `gpumemprof advise --json`.",
                    {{"name", "string"},
                     {"title", "string"},
                     {"cost", "string"},
                     {"predicted_peak_allocated_bytes", "number | null"},
                     {"predicted_peak_allocated_band", "Band | null"},
                     {"predicted_peak_reserved_bytes", "number | null"},
                     {"predicted_peak_reserved_band", "Band | null"},
                     {"at_least_peak_allocated_bytes", "number | null"},
                     {"saving_bytes", "number | null"},
                     {"slowdown_pct", "number | null"},
                     {"slowdown_provenance", "string | null"},
                     {"provenance", "string"},
                     {"why", "string"},
                     {"how", "string"},
                     {"how_trainer", "string | null"}},
                    "",
                    true});
  shapes.push_back({"RemedyCode",
                    "",
                    {{"name", "string"}, {"how", "string"}, {"how_trainer", "string | null"}},
                    "",
                    true});
  shapes.push_back({"FitPlan",
                    "The cheapest remedies that fit; null where none does.",
                    {{"limit_bytes", "number"},
                     {"is_found", "boolean"},
                     {"refusal", "string | null"},
                     {"remedies", "string[] | null"},
                     {"predicted_peak_allocated_bytes", "number | null"},
                     {"predicted_peak_allocated_band", "Band | null"},
                     {"predicted_peak_reserved_bytes", "number | null"},
                     {"predicted_peak_reserved_band", "Band | null"},
                     {"slowdown_pct", "number | null"},
                     {"code", "RemedyCode[] | null"}},
                    "",
                    true});
  shapes.push_back({"AdviceBaseline",
                    "",
                    {{"peak_allocated_bytes", "number"}, {"peak_reserved_bytes", "number | null"}},
                    "",
                    true});
  shapes.push_back({"CompletedPeak",
                    "",
                    {{"peak_allocated_bytes", "number"},
                     {"peak_reserved_bytes", "number | null"},
                     {"how", "string"}},
                    "",
                    true});
}

void add_tried(std::vector<Shape>& shapes) {
  shapes.push_back({"AdvisedExcerpt",
                    "Of a run too long for memory: the part that remedies are tried on.",
                    {{"device", "string"},
                     {"from_event", "number"},
                     {"to_event", "number"},
                     {"first_step", "number | null"},
                     {"last_step", "number | null"},
                     {"events_of_run", "number"}},
                    "",
                    true});
  shapes.push_back({"AdvisedPart",
                    "",
                    {{"excerpt", "AdvisedExcerpt[] | null", "Null: the whole run."}},
                    "",
                    true});
  shapes.push_back({"AdviceData",
                    "The parts of `gpumemprof advise --json` that the page shows.",
                    {{"completeness", "AdvisedPart"},
                     {"baseline", "AdviceBaseline"},
                     {"completed", "CompletedPeak | null"},
                     {"partial", "string | null"},
                     {"remedies", "AdvisedRemedy[]"},
                     {"fit", "FitPlan | null"},
                     {"missing", "string[]"}},
                    "",
                    true});
  shapes.push_back(
      {"AdviceAnswer",
       "",
       {{"refusal", "string | null", "A sentence, if remedies cannot be tried on this recording."},
        {"advice", "AdviceData | null"},
        {"families", "Record<string, string>",
         "Of two remedies of one family, only one can be applied."}}});
  shapes.push_back(
      {"TogetherAnswer",
       "",
       {{"refusal", "string | null", "A sentence, if they cannot be predicted together."},
        {"remedy", "AdvisedRemedy | null"},
        {"first_event", "number", "Of the run: where the first stretch begins."},
        {"events_per_point", "number"},
        {"most_bytes", "number[]",
         "Predicted: the most allocated in each stretch of so many recorded events. As sent: "
         "deltas. Empty: only the peak is predicted."},
        {"time_ns", "number[]", "When each stretch starts; empty: unknown. As sent: deltas."}}});
}

}  // namespace gpumemprof::view
