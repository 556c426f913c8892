// How groups, frames and moments are called on the viewer's page.
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

// A name or path as the page shows it: what would turn the text around it round is a dot, and the
// middle of what nobody could read to its end is left out, so that no file makes an answer of
// gigabytes.
std::string shown(std::string_view name);

// "/train/case.py:52 <lambda>", or what is said where there is no frame.
std::string frame_label(const Store& store, FrameId frame, GroupBy by);
// The user's line and, where it is another, the innermost frame.
std::string stack_label(const Store& store, StackId stack);
// "in backward of ": before the label of the forward that memory of backward belongs to.
inline constexpr std::string_view kInBackward = "in backward of ";
// Name, file, line, whether it is the user's own code, its label, and its file as stacks show it.
Json frame_json(const Store& store, FrameId frame);
// Innermost first, each with whether it is the user's own code; the outermost are left out where
// they are far too many.
Json stack_frames(const Store& store, StackId stack);

}  // namespace gpumemprof::view
