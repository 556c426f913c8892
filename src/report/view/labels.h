// How groups, frames and moments are named on the viewer's page.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "analysis/timeline/grouping.h"
#include "store/store.h"

namespace gpumemprof::view {

using Json = nlohmann::ordered_json;

std::string dump(const Json& json);

Json bytes_or_null(std::uint64_t bytes);
Json time_or_null(std::int64_t time_ns);
Json text_or_null(const Store& store, StringId text);
std::string address_text(std::uint64_t address);

// A name or path as the page shows it: characters that would reverse the text around them become a
// dot, and the middle of overlong names is left out, so that no file can produce gigabytes of
// output.
std::string shown(std::string_view name);

// "/train/case.py:52 <lambda>", or a placeholder where there is no frame.
std::string frame_label(const Store& store, FrameId frame, GroupBy by);
// The user's line and, where it differs, the innermost frame.
std::string stack_label(const Store& store, StackId stack);
// Labels of what has neither frame nor name.
inline constexpr std::string_view kNoStack = "no stack recorded";
inline constexpr std::string_view kNoLine = "no Python stack";
inline constexpr std::string_view kNoModuleLabel = "outside any module";
// Prefix for the label of the forward that memory of backward belongs to.
inline constexpr std::string_view kInBackward = "in backward of ";
// Name, file, line, whether it is the user's own code, its label, and its file as stacks show it.
Json frame_json(const Store& store, FrameId frame);
// Innermost first, each with whether it is the user's own code; the outermost are left out where
// there are far too many.
Json stack_frames(const Store& store, StackId stack);

}  // namespace gpumemprof::view
