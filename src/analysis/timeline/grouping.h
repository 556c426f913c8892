// Grouping: every allocation of a device in one of a few groups, so that live memory can be drawn
// as a stack of bands: by line of user code, by full stack, by module, by size, by source.
//
// The groups are chosen once for the whole history, so that a group keeps its place and colour
// everywhere: those that hold most at the peak and over the whole run. All others form one group,
// the last, which says how many it stands for.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/store.h"

namespace gpumemprof {

enum class GroupBy : std::uint8_t { source, module, line, stack, size };

inline constexpr GroupBy kGroupBys[] = {GroupBy::source, GroupBy::module, GroupBy::line,
                                        GroupBy::stack, GroupBy::size};
std::string_view group_by_name(GroupBy by);

struct Group {
  // For a source, a size class or modules distinguished by instance; else empty, and one of these
  // identifies the group:
  std::string name;
  FrameId frame;
  StackId stack;
  std::uint64_t members = 1;  // for the group of all others: how many groups it stands for
  bool is_rest = false;
  bool is_backward = false;  // allocated in backward; `frame` or `stack` is of the forward
  // Of a long run: all memory where the timeline shows too much of it to be divided into groups.
  bool is_undivided = false;
};

struct Grouping {
  static constexpr std::size_t kMostGroups = 16;  // including the rest

  GroupBy by = GroupBy::line;
  std::vector<Group> groups;
  Column<std::uint8_t> group_of_allocation;
  // By source, the bytes of blocks beyond the requested size have a group of their own.
  std::optional<std::uint8_t> rounding_group;
};

// The frame that identifies the module of an allocation from this stack: the innermost forward()
// that led to it. None outside modules.
FrameId module_frame(const Store& store, StackId stack);

// The exponent, at most 64, of the power of two at or below which a size lies: "up to 512 KiB".
unsigned size_class(std::uint64_t size_bytes);
std::string size_class_name(unsigned size_class);

// `peak_event`: where the most is live; kNoEvent: before the history began.
Grouping make_grouping(const Store& store, const DeviceRecord& record, std::uint32_t peak_event,
                       GroupBy by);

// The same with groups that were chosen for a longer run: what belongs to none of them is in the
// rest, or in no group at all if there is none. Ids are those of this store.
Grouping make_grouping_as(const Store& store, const DeviceRecord& record, GroupBy by,
                          const std::vector<Group>& groups);

// Whether it is known what the allocations are for.
bool has_sources(const DeviceRecord& record);

}  // namespace gpumemprof
