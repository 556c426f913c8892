// Divides a run into chapters: of each, its part of the run, with what is live where it begins.
#pragma once

#include <vector>

#include "event/chapter.h"
#include "session/recording.h"
#include "verbs/choices.h"

namespace gpumemprof::fuzz {

struct SplitChapter {
  Store part;
  ChapterStart start;  // rows are those of `part`
};

// Chapter `number` of `count`, counted from 0.
void split_chapter(const Recording& run, std::size_t number, std::size_t count,
                   SplitChapter& chapter);

}  // namespace gpumemprof::fuzz
