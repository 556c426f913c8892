// Some blocks of a folder of chapters, from the middle of it, into a sink.
//
// Whoever read the whole folder once knows what the rows of each chapter are called, and the number
// of the first event. Only what has a place in the history is delivered: events, those that lead
// over gaps among them, what is said about them, samples, annotations.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "trace/content/definitions.h"
#include "trace/recording_place.h"

namespace gpumemprof {

struct ChapterStretch {
  RecordingPlace from;
  RecordingPlace to;
  DeviceIndex device = 0;         // only what belongs to it
  std::uint32_t first_event = 0;  // of it, in the run
};

// Of a chapter: its rows → the sink's. None: they are not known.
using RowsOfChapter = std::function<std::optional<trace::DefinedRows>(std::uint32_t chapter)>;

// Fails if the folder is not what it was.
Status deliver_stretch(const std::string& folder, const ChapterStretch& stretch,
                       const RowsOfChapter& rows_of, EventSink& sink);

}  // namespace gpumemprof
