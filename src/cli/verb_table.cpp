// The table of verbs: makes the help, dispatch, the check for misspelled verbs, and the list of
// commands in README.md, which tools/check_docs.py compares with the help.
#include <array>

#include "cli/verb.h"

// clang-format off
#define GMP_VERBS(VERB)                                                                       \
  VERB(run,       "Run a Python program and record every allocation it makes")                \
  VERB(live,      "Watch programs while they run: how full the card is, and by what")        \
  VERB(estimate,  "Predict a program's GPU memory without a GPU: will it fit?")               \
  VERB(calibrate, "Measure convolutions on your GPU, for better estimates")                   \
  VERB(report,    "Explain where the memory went: peak, sources, waste, failures")            \
  VERB(tree,      "Show what is live at the peak as a tree of call stacks")                    \
  VERB(stats,     "Count all allocations: by size, by lifetime and by line of code")          \
  VERB(table,     "List allocations, or the lines that made them, sorted and searched")       \
  VERB(compare,   "Compare the peaks of two recordings by source, line and module")           \
  VERB(ranks,     "Compare the ranks of a job: which is nearest to its limit, and why")       \
  VERB(leaks,     "Find memory that is never freed, and the lines that allocate it")          \
  VERB(view,      "Open recordings in the browser: one, two compared, or all ranks")          \
  VERB(advise,    "Predict what each remedy would save in this run, and its cost")            \
  VERB(simulate,  "Simulate a run under other allocator settings or memory limits")           \
  VERB(convert,   "Write a recording in another format")                                      \
  VERB(export,    "Write recordings as Parquet tables, for any engine that reads them")        \
  VERB(info,      "Show what a recording is and contains, without analyzing it")              \
  VERB(demo,      "Report on a real out-of-memory run that ships with gpumemprof")             \
  VERB(completion, "Print a script that completes commands and flags in your shell")
// clang-format on

namespace gpumemprof::cli {

#define GMP_DECLARE_VERB(name, help) VerbAction prepare_##name(CLI::App& verb);
GMP_VERBS(GMP_DECLARE_VERB)
#undef GMP_DECLARE_VERB

namespace {

#define GMP_TABLE_LINE(name, help) Verb{#name, help, prepare_##name},
constexpr std::array kVerbs = {GMP_VERBS(GMP_TABLE_LINE)};
#undef GMP_TABLE_LINE

}  // namespace

std::span<const Verb> verbs() { return kVerbs; }

}  // namespace gpumemprof::cli
