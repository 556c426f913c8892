#include <nlohmann/json.hpp>

#include "analysis/calls/call_tree.h"
#include "report/terminal/reported_input.h"
#include "report/terminal/tree_text.h"

namespace gpumemprof {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kTreeSchemaVersion = 1;

Json call_json(const CallNode& node, const Store& store) {
  return {{"parent", node.parent == CallNode::kNoParent ? Json() : Json(node.parent)},
          {"frame", terminal::frame_json(store, node.frame)},
          {"is_backward", node.is_backward},
          {"bytes", node.bytes},
          {"blocks", node.blocks},
          {"self_bytes", node.self_bytes},
          {"self_blocks", node.self_blocks}};
}

}  // namespace

std::string tree_json(const Overview& overview, const Store& store) {
  Json json = {{"schema_version", kTreeSchemaVersion},
               {"input", terminal::input_json(overview, store)},
               {"devices", Json::array()}};
  for (const DeviceOverview& device : overview.devices) {
    const CallTree tree = make_call_tree(device.live, store);
    Json calls = Json::array();
    for (const CallNode& node : tree.nodes) calls.push_back(call_json(node, store));
    json["devices"].push_back({{"device", device.name},
                               {"at", terminal::moment_json(device)},
                               {"bytes", tree.allocated_bytes},
                               {"blocks", tree.blocks},
                               {"calls", calls}});
  }
  return terminal::document(json);
}

}  // namespace gpumemprof
