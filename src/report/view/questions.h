// The questions that the viewer's page asks, each written once: its name, its parameters in the
// order in which they are written, and the name of its answer's shape (answer_shapes.h).
//
// From this table follow what the server accepts (read_question), the keys under which a standalone
// page stores answers (question_text), and the page's types (typescript.h). To add a question, add
// its struct here and to Question, its shape to answer_shapes.cpp, and View::answer for it; the
// compiler and the tests of this room ask for what is missing.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "analysis/moment/flame.h"
#include "analysis/range/range_rows.h"
#include "analysis/table/allocation_query.h"
#include "analysis/timeline/grouping.h"
#include "analysis/timeline/timeline.h"
#include "base/result.h"

namespace gpumemprof {

// A device of one of the recordings that a View holds.
struct DeviceName {
  std::size_t file = 0;
  std::size_t device = 0;
};

}  // namespace gpumemprof

namespace gpumemprof::view {

// The most that one answer lists.
inline constexpr std::size_t kMostBands = 20'000;
inline constexpr std::size_t kMostTableRows = 1000;

// parameters(self, each) calls each.required or each.optional for every parameter; an optional one
// has the value of a new question unless it is given. The last argument is the largest value that
// is accepted.

struct MetaQuestion {
  static constexpr std::string_view kName = "meta";
  static constexpr std::string_view kAnswer = "Meta";
  static void parameters(auto& /*self*/, auto& /*each*/) {}
};

struct ReportQuestion {
  static constexpr std::string_view kName = "report";
  static constexpr std::string_view kAnswer = "Report";
  std::size_t file = 0;
  static void parameters(auto& self, auto& each) { each.required("file", self.file); }
};

// What several questions have in common: every other one starts with a device.
void device_parameters(auto& device, auto& each) {
  each.required("file", device.file);
  each.required("device", device.device);
}
void tile_parameters(auto& address, auto& each) {
  each.required("axis", address.axis);
  each.required("level", address.level);
  each.required("index", address.index);
}
void grouped_moment_parameters(auto& self, auto& each) {
  device_parameters(self.device, each);
  each.required("position", self.position);
  each.required("by", self.by);
}

struct GroupsQuestion {
  static constexpr std::string_view kName = "groups";
  static constexpr std::string_view kAnswer = "Groups";
  DeviceName device;
  GroupBy by = GroupBy::line;
  static void parameters(auto& self, auto& each) {
    device_parameters(self.device, each);
    each.required("by", self.by);
  }
};

// Part of the timeline.
struct TileQuestion {
  static constexpr std::string_view kName = "tile";
  static constexpr std::string_view kAnswer = "TileAnswer";
  DeviceName device;
  GroupBy by = GroupBy::line;
  TileAddress address;
  static void parameters(auto& self, auto& each) {
    device_parameters(self.device, each);
    each.required("by", self.by);
    tile_parameters(self.address, each);
  }
};

// The steps, phases and annotations above that part.
struct SpansQuestion {
  static constexpr std::string_view kName = "spans";
  static constexpr std::string_view kAnswer = "SpanTile";
  DeviceName device;
  TileAddress address;
  static void parameters(auto& self, auto& each) {
    device_parameters(self.device, each);
    tile_parameters(self.address, each);
  }
};

struct OverlaysQuestion {
  static constexpr std::string_view kName = "overlays";
  static constexpr std::string_view kAnswer = "TimelineOverlays";
  DeviceName device;
  static void parameters(auto& self, auto& each) { device_parameters(self.device, each); }
};

struct MomentQuestion {
  static constexpr std::string_view kName = "moment";
  static constexpr std::string_view kAnswer = "Moment";
  DeviceName device;
  Position position = 0;
  static void parameters(auto& self, auto& each) {
    device_parameters(self.device, each);
    each.required("position", self.position);
  }
};

// What each group holds at a moment.
struct GroupBytesQuestion {
  static constexpr std::string_view kName = "group_bytes";
  static constexpr std::string_view kAnswer = "GroupBytes";
  DeviceName device;
  Position position = 0;
  GroupBy by = GroupBy::line;
  static void parameters(auto& self, auto& each) { grouped_moment_parameters(self, each); }
};

struct FlameQuestion {
  static constexpr std::string_view kName = "flame";
  static constexpr std::string_view kAnswer = "Flame";
  DeviceName device;
  Position position = 0;
  FlameBy by = FlameBy::stack;
  static void parameters(auto& self, auto& each) { grouped_moment_parameters(self, each); }
};

struct SegmentsQuestion {
  static constexpr std::string_view kName = "segments";
  static constexpr std::string_view kAnswer = "Segments";
  DeviceName device;
  Position position = 0;
  GroupBy by = GroupBy::line;
  static void parameters(auto& self, auto& each) { grouped_moment_parameters(self, each); }
};

// A page of the table. A group is named by its grouping and its number: both or neither.
struct AllocationsQuestion {
  static constexpr std::string_view kName = "allocations";
  static constexpr std::string_view kAnswer = "Allocations";
  DeviceName device;
  AllocationQuery query;
  std::optional<GroupBy> by;
  std::optional<std::uint8_t> group;
  static void parameters(auto& self, auto& each) {
    device_parameters(self.device, each);
    auto& filter = self.query.filter;
    each.optional("min_size", filter.min_size_bytes);
    each.optional("max_size", filter.max_size_bytes);
    each.optional("min_lifetime", filter.min_lifetime);
    each.optional("max_lifetime", filter.max_lifetime);
    each.optional("words", filter.words);
    each.optional("live_at", filter.live_at);
    each.optional("from", filter.from);
    each.optional("to", filter.to);
    each.optional("by", self.by);
    each.optional("group", self.group);
    each.optional("order", self.query.order);
    each.optional("direction", self.query.direction);
    each.optional("offset", self.query.offset);
    each.optional("limit", self.query.limit, kMostTableRows);
  }
};

struct AllocationQuestion {
  static constexpr std::string_view kName = "allocation";
  static constexpr std::string_view kAnswer = "Allocation";
  DeviceName device;
  std::size_t row = 0;
  static void parameters(auto& self, auto& each) {
    device_parameters(self.device, each);
    each.required("row", self.row);
  }
};

// The allocations that are drawn as bands of their own on a screen that shows the positions
// [from, to), each with its group.
struct SinglesQuestion {
  static constexpr std::string_view kName = "singles";
  static constexpr std::string_view kAnswer = "Singles";
  DeviceName device;
  Position from = 0;
  Position to = 0;
  GroupBy by = GroupBy::line;
  Axis axis = Axis::event;
  std::uint64_t least_bytes = 0;
  std::int64_t least_length = 0;  // in what is visible: events, or nanoseconds
  std::size_t most = kMostBands;
  static void parameters(auto& self, auto& each) {
    device_parameters(self.device, each);
    each.required("from", self.from);
    each.required("to", self.to);
    each.required("by", self.by);
    each.required("axis", self.axis);
    each.optional("least_bytes", self.least_bytes);
    each.optional("least_length", self.least_length);
    each.optional("most", self.most, kMostBands);
  }
};

// What happened between two moments.
struct RangeQuestion {
  static constexpr std::string_view kName = "range";
  static constexpr std::string_view kAnswer = "Range";
  DeviceName device;
  Position from = 0;
  Position to = 0;
  static void parameters(auto& self, auto& each) {
    device_parameters(self.device, each);
    each.required("from", self.from);
    each.required("to", self.to);
  }
};

// The same as a flame graph.
struct RangeFlameQuestion {
  static constexpr std::string_view kName = "range_flame";
  static constexpr std::string_view kAnswer = "Flame";
  DeviceName device;
  Position from = 0;
  Position to = 0;
  RangePart part = RangePart::allocated;
  FlameBy by = FlameBy::stack;
  static void parameters(auto& self, auto& each) {
    device_parameters(self.device, each);
    each.required("from", self.from);
    each.required("to", self.to);
    each.required("part", self.part);
    each.required("by", self.by);
  }
};

// The same run under other settings of the allocator, simulated.
struct SettingsQuestion {
  static constexpr std::string_view kName = "settings";
  static constexpr std::string_view kAnswer = "SimulatedSettings";
  DeviceName device;
  static void parameters(auto& self, auto& each) { device_parameters(self.device, each); }
};

// What is live at two moments, of one device or of two.
struct CompareQuestion {
  static constexpr std::string_view kName = "compare";
  static constexpr std::string_view kAnswer = "Comparison";
  DeviceName first;
  Position first_position = 0;
  DeviceName second;
  Position second_position = 0;
  GroupBy by = GroupBy::line;
  static void parameters(auto& self, auto& each) {
    device_parameters(self.first, each);
    each.required("position", self.first_position);
    each.required("file2", self.second.file);
    each.required("device2", self.second.device);
    each.required("position2", self.second_position);
    each.required("by", self.by);
  }
};

// The steps and phases of a run, and what each leaking line holds from step to step.
struct StepsQuestion {
  static constexpr std::string_view kName = "steps";
  static constexpr std::string_view kAnswer = "StepsAnswer";
  DeviceName device;
  static void parameters(auto& self, auto& each) { device_parameters(self.device, each); }
};

// What each remedy would save, and the cheapest ones that fit into `fit` bytes.
struct AdviceQuestion {
  static constexpr std::string_view kName = "advice";
  static constexpr std::string_view kAnswer = "AdviceAnswer";
  DeviceName device;
  std::optional<std::uint64_t> fit;
  static void parameters(auto& self, auto& each) {
    device_parameters(self.device, each);
    each.optional("fit", self.fit);
  }
};

// Remedies together, "checkpointing+autocast_bf16": what they save, and the run with them.
struct TogetherQuestion {
  static constexpr std::string_view kName = "together";
  static constexpr std::string_view kAnswer = "TogetherAnswer";
  DeviceName device;
  std::string remedies;
  static void parameters(auto& self, auto& each) {
    device_parameters(self.device, each);
    each.required("remedies", self.remedies);
  }
};

using Question =
    std::variant<MetaQuestion, ReportQuestion, GroupsQuestion, TileQuestion, SpansQuestion,
                 OverlaysQuestion, MomentQuestion, GroupBytesQuestion, FlameQuestion,
                 SegmentsQuestion, AllocationsQuestion, AllocationQuestion, SinglesQuestion,
                 RangeQuestion, RangeFlameQuestion, SettingsQuestion, CompareQuestion,
                 StepsQuestion, AdviceQuestion, TogetherQuestion>;

// An Error for an unknown name, and for a parameter that is missing or invalid. Parameters that the
// question does not have are ignored.
Result<Question> read_question(std::string_view name,
                               const std::map<std::string, std::string>& parameters);

// "tile?file=0&device=0&by=line&axis=event&level=0&index=0": as the page asks it. Optional
// parameters with their usual value are left out.
std::string question_text(const Question& question);

// The table as data.
struct ParameterFacts {
  std::string_view name;
  std::string type;  // in TypeScript
  bool is_optional = false;
};
struct QuestionFacts {
  std::string_view name;
  std::string_view answer;
  std::vector<ParameterFacts> parameters;
};
std::vector<QuestionFacts> question_table();

// A parameter with a fixed set of values, and a type of the page.
struct ChoiceFacts {
  std::string_view type;
  std::vector<std::string_view> names;
};
std::vector<ChoiceFacts> choice_table();

}  // namespace gpumemprof::view
