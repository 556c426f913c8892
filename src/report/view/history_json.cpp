#include "report/view/history_json.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <functional>

#include "analysis/tags/tags.h"
#include "base/flat_map.h"
#include "report/text/text_format.h"
#include "report/view/labels.h"

namespace gpumemprof::view {
namespace {

constexpr std::uint64_t kMostExact = std::uint64_t{1} << 52;

// Assigns numbers to things in order of first use.
class Numbers {
 public:
  // -1: none.
  std::int64_t number(std::uint32_t index) {
    const std::uint32_t next = static_cast<std::uint32_t>(used.size());
    const std::uint32_t known = numbers_.find_or_insert(index, next);
    if (known == next) used.push_back(index);
    return known;
  }
  std::vector<std::uint32_t> used;

 private:
  FlatMap<std::uint32_t> numbers_;
};

class Writer {
 public:
  explicit Writer(const HistoryParts& parts)
      : parts_(parts),
        store_(parts.source.store),
        record_(parts.source.record),
        rows_(parts.source.record.allocations) {}

  std::string run() {
    out_ = "{";
    add_rows();
    add_times();
    add_segments();
    add_groupings();
    for (const FlameTree& tree : parts_.flames) add_flame(tree);
    // Last, because the parts before determine which are used.
    if (!is_full()) add_stacks();
    if (!is_full()) add("frames", frames_json());
    if (is_full()) return "";
    out_.back() = '}';
    return std::move(out_);
  }

 private:
  static constexpr std::size_t kMostBytes = std::size_t{96} << 20;
  [[nodiscard]] bool is_full() const { return out_.size() > kMostBytes; }

  void add(std::string_view name, std::string_view json) {
    out_ += fmt::format(R"("{}":{},)", name, json);
  }

  void add_column(std::string_view name, std::size_t size,
                  const std::function<std::int64_t(std::size_t)>& value) {
    out_ += fmt::format(R"("{}":[)", name);
    std::int64_t before = 0;
    for (std::size_t row = 0; row < size; ++row) {
      const std::int64_t now = value(row);
      if (row > 0) out_ += ',';
      out_ += std::to_string(now - before);
      before = now;
    }
    out_ += "],";
  }

  static std::int64_t death(std::uint32_t event) {
    return event == kNoEvent ? 0 : std::int64_t{position_after(event)};
  }

  // Stack nodes that are used, and their callers, callers first.
  std::int64_t stack_number(StackId stack) {
    return stack.is_none() ? -1 : stacks_.number(stack.index);
  }

  std::int64_t frame_number(FrameId frame) {
    return frame.is_none() ? -1 : frames_.number(frame.index);
  }

  [[nodiscard]] StackId forward(std::size_t row) const {
    const std::uint32_t event = rows_.alloc_event[row];
    const auto& stacks = record_.events.forward_stack;
    return event < stacks.size() ? stacks[event] : StackId();
  }

  void add_rows() {
    const std::size_t size = rows_.size();
    add_column("address", size, [&](std::size_t row) { return std::int64_t(rows_.address[row]); });
    add_column("size", size, [&](std::size_t row) { return std::int64_t(rows_.size_bytes[row]); });
    add_column("requested", size,
               [&](std::size_t row) { return std::int64_t(rows_.requested_bytes[row]); });
    add_column("birth", size, [&](std::size_t row) {
      return std::int64_t{birth_position(rows_.alloc_event[row])};
    });
    add_column("death", size,
               [&](std::size_t row) { return death(rows_.free_requested_event[row]); });
    add_column("reusable", size,
               [&](std::size_t row) { return death(rows_.free_completed_event[row]); });
    add_column("stack", size, [&](std::size_t row) { return stack_number(rows_.stack[row]); });
    add_column("forward_stack", size, [&](std::size_t row) { return stack_number(forward(row)); });
    add_column("stream", size, [&](std::size_t row) { return std::int64_t{rows_.stream[row]}; });
    add_streams();
    add_labels();
    std::string pending;
    for (const AllocationId row : rows_.pending_at_start)
      pending += (pending.empty() ? "" : ",") + std::to_string(row.index);
    add("pending_at_start", "[" + pending + "]");
  }

  void add_streams() {
    Json streams = Json::array();
    for (std::uint32_t row = 0; row < store_.stream_count(); ++row)
      streams.push_back(address_text(store_.stream_handle(row)));
    add("streams", dump(streams));
  }

  void add_labels() {
    const std::size_t size = rows_.size();
    const AllocationLabels& labels = record_.labels;
    if (has_sources(record_)) {
      add_column("source", size,
                 [&](std::size_t row) { return static_cast<std::int64_t>(labels.source[row]); });
      add_column("is_measured", size,
                 [&](std::size_t row) { return labels.is_measured(row) ? 1 : 0; });
    }
    if (labels.name.size() == size)
      add_texts("name", "names", size, [&](std::size_t row) { return labels.name[row]; });
    if (has_tags(record_))
      add_texts("tag", "tags", size, [&](std::size_t row) { return tag_of(record_, row); });
  }

  // A column of numbers and the list of texts they refer to; -1: none.
  void add_texts(std::string_view column, std::string_view list, std::size_t size,
                 const std::function<StringId(std::size_t)>& text) {
    Numbers numbers;
    add_column(column, size, [&](std::size_t row) {
      const StringId id = text(row);
      return id.is_none() ? -1 : numbers.number(id.index);
    });
    Json texts = Json::array();
    for (const std::uint32_t index : numbers.used) {
      StringId id;
      id.index = index;
      texts.push_back(shown(store_.text(id)));
    }
    add(list, dump(texts));
  }

  void add_times() {
    const EventTimes& times = parts_.source.times;
    if (!times.is_known()) return;
    add_column("time_ns", record_.events.size(), [&](std::size_t event) {
      return times.since_first(times.of_event(static_cast<std::uint32_t>(event)));
    });
  }

  void add_segments() {
    const SegmentColumns& pieces = record_.segments;
    const std::size_t size = pieces.size();
    out_ += R"("segments":{)";
    add_column("address", size, [&](std::size_t row) { return std::int64_t(pieces.address[row]); });
    add_column("size", size, [&](std::size_t row) { return std::int64_t(pieces.size_bytes[row]); });
    add_column("birth", size, [&](std::size_t row) {
      return std::int64_t{birth_position(pieces.birth_event[row])};
    });
    add_column("death", size, [&](std::size_t row) { return death(pieces.death_event[row]); });
    add_column("stream", size, [&](std::size_t row) { return std::int64_t{pieces.stream[row]}; });
    add_column("is_small", size,
               [&](std::size_t row) { return std::int64_t{pieces.is_small[row]}; });
    add_column("is_expandable", size,
               [&](std::size_t row) { return std::int64_t{pieces.is_expandable[row]}; });
    Json pools = Json::array();
    Numbers numbers;
    add_column("pool", size, [&](std::size_t row) { return numbers.number(pieces.pool[row]); });
    for (const std::uint32_t index : numbers.used) {
      const PoolId pool = store_.pool(index);
      pools.push_back(pool == PoolId{} ? Json() : Json({pool.graph, pool.user}));
    }
    add("pools", dump(pools));
    out_.back() = '}';
    out_ += ',';
  }

  void add_groupings() {
    out_ += R"("groupings":{)";
    for (const Grouping* grouping : parts_.groupings) {
      out_ += fmt::format(R"("{}":{{"count":{},"rounding":{},)", group_by_name(grouping->by),
                          grouping->groups.size(),
                          grouping->rounding_group ? int{*grouping->rounding_group} : -1);
      add_column("of_row", grouping->group_of_allocation.size(),
                 [&](std::size_t row) { return std::int64_t{grouping->group_of_allocation[row]}; });
      out_.back() = '}';
      out_ += ',';
    }
    out_.back() = parts_.groupings.empty() ? '{' : '}';
    out_ += parts_.groupings.empty() ? "}," : ",";
  }

  void add_flame(const FlameTree& tree) {
    out_ += fmt::format(R"("flame_{}":{{)", flame_by_name(tree.by));
    add_column("parent", tree.nodes.size(), [&](std::size_t node) {
      const std::uint32_t parent = tree.nodes[node].parent;
      return parent == FlameNode::kNoParent ? -1 : std::int64_t{parent};
    });
    add_column("frame", tree.nodes.size(),
               [&](std::size_t node) { return frame_number(tree.nodes[node].frame); });
    if (std::ranges::any_of(tree.nodes, [](const FlameNode& node) { return !node.name.is_none(); }))
      add_texts("name", "names", tree.nodes.size(),
                [&](std::size_t node) { return tree.nodes[node].name; });
    add_column("of_row", tree.node_of_allocation.size(),
               [&](std::size_t row) { return std::int64_t{tree.node_of_allocation[row]}; });
    out_.back() = '}';
    out_ += ',';
  }

  void add_stacks() {
    // Written one by one: as objects, many would take many times the memory of their text.
    out_ += R"("labels":[)";
    for (std::size_t at = 0; at < stacks_.used.size() && !is_full(); ++at) {
      StackId stack;
      stack.index = stacks_.used[at];
      if (at > 0) out_ += ',';
      out_ += dump(Json(stack_label(store_, stack)));
    }
    out_ += "],";
    // Callers that no allocation has are added during this loop.
    std::vector<std::int64_t> callers;
    // NOLINTNEXTLINE(modernize-loop-convert): the list grows.
    for (std::size_t at = 0; at < stacks_.used.size(); ++at) {
      StackId stack;
      stack.index = stacks_.used[at];
      callers.push_back(stack_number(store_.stacks().caller(stack)));
    }
    add_column("stack_caller", callers.size(), [&](std::size_t at) { return callers[at]; });
    add_column("stack_frame", callers.size(), [&](std::size_t at) {
      StackId stack;
      stack.index = stacks_.used[at];
      return frame_number(store_.stacks().frame(stack));
    });
  }

  std::string frames_json() const {
    Json frames = Json::array();
    for (const std::uint32_t index : frames_.used) {
      FrameId id;
      id.index = index;
      frames.push_back(frame_json(store_, id));
    }
    return dump(frames);
  }

  const HistoryParts& parts_;
  const Store& store_;
  const DeviceRecord& record_;
  const AllocationColumns& rows_;
  std::string out_;
  Numbers stacks_;
  Numbers frames_;
};

}  // namespace

bool can_write_history(const DeviceRecord& record) {
  const auto is_exact = [](std::uint64_t value) { return value < kMostExact; };
  const auto are_exact = [&](const Column<std::uint64_t>& values) {
    return std::all_of(values.begin(), values.end(), is_exact);
  };
  return are_exact(record.allocations.address) && are_exact(record.allocations.size_bytes) &&
         are_exact(record.allocations.requested_bytes) && are_exact(record.segments.address) &&
         are_exact(record.segments.size_bytes);
}

std::string history_json(const HistoryParts& parts) { return Writer(parts).run(); }

}  // namespace gpumemprof::view
