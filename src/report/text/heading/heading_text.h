// The first lines of every text about a recording: what it is, and what is missing from it. And how
// all of them name a moment.
#pragma once

#include <string>
#include <string_view>

#include "analysis/overview/overview.h"
#include "store/store.h"

namespace gpumemprof::text {

// Ends with a line end.
std::string heading_text(const Overview& overview, const Store& store, std::size_t width);
// "PyTorch memory snapshot", "recording".
std::string recording_kind(std::string_view kind);
// "at event 629 of 951, 260 ms in, step 1"
std::string when_text(const When& when, std::uint64_t events, const Store& store);
// "at the peak", "at the end", "after event 12": the moment that was asked about.
std::string asked_text(const DeviceOverview& device);

}  // namespace gpumemprof::text
