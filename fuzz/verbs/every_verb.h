// Everything gpumemprof can do with a file, as its verbs, its viewer and its tables do it, in one
// process.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "analysis/info/recording_info.h"
#include "report/arrow/table.h"
#include "session/recording.h"
#include "verbs/choices.h"

namespace gpumemprof::fuzz {

// `folder` is for the verbs' output. Ends the process where an invariant is broken; a rejected file
// is fine.
void try_every_verb(const std::string& path, const std::string& folder, Choices& choices);
// The same with what is open already: all of a recording, or a part of it.
void try_verbs_on(const std::shared_ptr<const Recording>& recording, const std::string& folder,
                  Choices& choices);

// What any report is asked, and that it can be shown.
std::optional<DeviceIndex> some_device(std::size_t devices, Choices& choices);
OverviewOptions some_overview(std::size_t devices, Choices& choices);
void show_overview(const Overview& overview, const Store& store, Choices& choices);
void show_info(const RecordingInfo& info);
// As a reader of Arrow's streams does it, to the end.
void read_stream(const arrow::Table& table);

}  // namespace gpumemprof::fuzz
