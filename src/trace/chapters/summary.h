// The summary of a folder of chapters: a text that grows by a few lines with each chapter that is
// closed, so that something remains of those that are removed.
//
//   gpumemprof summary 1
//   step FIRST LAST DEVICE PEAK FLOOR RESERVED END EVENTS
//   device CHAPTER DEVICE PEAK RESERVED FLOOR END
//   chapter NUMBER FIRST_NS LAST_NS EVENTS FAILURES RETRIES FIRST_STEP LAST_STEP
//
// The lines of a chapter come before its own, which makes them valid. Bytes throughout; events are
// rows of all devices, of a step those of the device.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "event/chapter_figures.h"

namespace gpumemprof {

struct FolderSummary {
  std::vector<ChapterFigures> chapters;
  std::vector<StepSummary> steps;
};

inline constexpr std::string_view kSummaryTitle = "gpumemprof summary 1\n";

// The lines of one chapter and of the steps that ended in it.
std::string summary_lines(const ChapterFigures& chapter, const std::vector<StepSummary>& steps);
// Skips lines that it does not understand, and what comes after the last whole line. Nothing is
// known from a text of another version.
FolderSummary read_summary(std::string_view text);
// Half as many steps: neighbours become one, with the highest peak and the lowest floor of both.
void thin_out(std::vector<StepSummary>& steps);

}  // namespace gpumemprof
