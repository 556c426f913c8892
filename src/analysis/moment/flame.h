// Flame: what is allocated at a moment as a tree of calls, outermost first, of modules, or of tags
// with the calls under each.
#pragma once

#include <map>
#include <string_view>
#include <tuple>
#include <vector>

#include "analysis/moment/live_rows.h"
#include "store/store.h"

namespace gpumemprof {

enum class FlameBy : std::uint8_t {
  stack,   // every frame
  module,  // the modules it belongs to; if not distinguished, the forward() frames only,
           // in backward those of the forward stack
  tag,     // the tag it was allocated under (gpumemprof.tag), and below it every frame
};
inline constexpr FlameBy kFlameBys[] = {FlameBy::stack, FlameBy::module, FlameBy::tag};

// "stack", "module", "tag".
std::string_view flame_by_name(FlameBy by);
// By tag only if something was tagged.
std::vector<FlameBy> flame_bys(const DeviceRecord& record);

struct FlameNode {
  static constexpr std::uint32_t kNoParent = 0xffffffffU;
  std::uint32_t parent = kNoParent;
  // None: no stack was recorded, no module led to it, or it has no tag. Below another node:
  // allocated in backward of what that node called.
  FrameId frame;
  StringId name;                 // of a module instance or a tag; then there is no frame
  std::uint64_t bytes = 0;       // including its children
  std::uint64_t self_bytes = 0;  // allocated by this frame itself
  std::uint64_t blocks = 0;
};

struct Flame {
  std::vector<FlameNode> nodes;  // parents before children, siblings by bytes, most first
  std::uint64_t allocated_bytes = 0;
  std::uint64_t blocks = 0;
  // Too small to be drawn: their bytes are counted in their parents.
  std::uint64_t nodes_left_out = 0;
};

struct FlameOptions {
  FlameBy by = FlameBy::stack;
  std::size_t most_nodes = 4000;
  std::size_t most_levels = 400;
  // A smaller share of the whole is less than a pixel wide on the widest screen.
  static constexpr std::uint64_t kFinestShare = 8000;
};

// The tree of all calls in a device's history, and which of its nodes each allocation belongs to: a
// flame graph of any moment is what is live then, summed over it.
struct FlameTree {
  FlameBy by = FlameBy::stack;
  std::vector<FlameNode> nodes;  // parents before children; without bytes
  std::vector<std::uint32_t> node_of_allocation;
};
FlameTree flame_tree(const Store& store, const DeviceRecord& record, FlameBy by);

// Of any allocations of a device.
Flame flame_of(const Store& store, const DeviceRecord& record,
               const std::vector<AllocationId>& allocations, const FlameOptions& options);
Flame flame_at(const Store& store, const DeviceRecord& record, const LiveRows& live,
               Position position, const FlameOptions& options);

// Of allocations in several parts of a run, whose definitions have the same numbers.
class FlameSum {
 public:
  explicit FlameSum(const FlameOptions& options) : options_(options) {}

  void add(const Store& store, const DeviceRecord& record,
           const std::vector<AllocationId>& allocations);
  [[nodiscard]] Flame result() &&;

 private:
  FlameOptions options_;
  std::vector<FlameNode> nodes_;  // only their own bytes
  std::map<std::tuple<std::uint32_t, FrameId, StringId>, std::uint32_t> places_;
};

}  // namespace gpumemprof
