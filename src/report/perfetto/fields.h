// Field numbers of perfetto_trace.proto, by message.
#pragma once

#include <protozero/types.hpp>

namespace gpumemprof::perfetto_fields {

using Tag = protozero::pbf_tag_type;

inline constexpr Tag kTracePacket = 1;
namespace packet {
inline constexpr Tag kClockSnapshot = 6;
inline constexpr Tag kTimestamp = 8;
inline constexpr Tag kSequenceId = 10;
inline constexpr Tag kTrackEvent = 11;
inline constexpr Tag kInternedData = 12;
inline constexpr Tag kSequenceFlags = 13;
inline constexpr Tag kProfilePacket = 37;
inline constexpr Tag kTrackDescriptor = 60;
}  // namespace packet
namespace interned_data {
inline constexpr Tag kEventNames = 2;
inline constexpr Tag kNoteNames = 3;
inline constexpr Tag kFunctionNames = 5;
inline constexpr Tag kFrames = 6;
inline constexpr Tag kCallstacks = 7;
inline constexpr Tag kBuildIds = 16;
inline constexpr Tag kMappingPaths = 17;
inline constexpr Tag kSourcePaths = 18;
inline constexpr Tag kMappings = 19;
inline constexpr Tag kNoteTexts = 29;
}  // namespace interned_data
namespace track_event {
inline constexpr Tag kNotes = 4;
inline constexpr Tag kType = 9;
inline constexpr Tag kNameId = 10;
inline constexpr Tag kTrack = 11;
inline constexpr Tag kExtraCounterValues = 12;
inline constexpr Tag kCounterValue = 30;
inline constexpr Tag kExtraCounterTracks = 31;
}  // namespace track_event
namespace note {
inline constexpr Tag kNameId = 1;
inline constexpr Tag kUint = 3;
inline constexpr Tag kText = 6;
inline constexpr Tag kTextId = 17;
}  // namespace note

}  // namespace gpumemprof::perfetto_fields
