#include "analysis/modules/module_index.h"

#include <gtest/gtest.h>

#include "analysis/modules/modules.h"

namespace gpumemprof {
namespace {

// Allocations by module number, each of a different size, all of them live.
class ModulesByInstance : public ::testing::Test {
 protected:
  void module(std::uint32_t number, const char* path, const char* class_name,
              bool is_root = false) {
    ModuleLabel label;
    if (path != nullptr) label.path = store_.add_string(path);
    label.class_name = store_.add_string(class_name);
    label.number = number;
    label.is_root = is_root;
    store_.add_module(label);
  }

  void alloc(std::uint32_t module, std::uint64_t size_bytes,
             MemorySource source = MemorySource::activations, const char* name = nullptr) {
    Event event;
    event.action = Action::alloc;
    event.address = 0x1000 * (record_.events.size() + 1);
    event.size_bytes = size_bytes;
    event.module = module;
    record_.events.push_back(event);
    AllocationColumns& rows = record_.allocations;
    rows.address.push_back(event.address);
    rows.size_bytes.push_back(size_bytes);
    rows.requested_bytes.push_back(size_bytes);
    rows.alloc_event.push_back(static_cast<std::uint32_t>(record_.events.size() - 1));
    rows.free_requested_event.push_back(kNoEvent);
    rows.free_completed_event.push_back(kNoEvent);
    rows.stream.push_back(0);
    rows.stack.push_back(StackId());
    rows.segment.push_back(SegmentId());
    record_.labels.source.push_back(source);
    record_.labels.flags.push_back(0);
    record_.labels.name.push_back(name == nullptr ? StringId() : store_.add_string(name));
  }

  std::string name_of(std::size_t row) {
    ModuleIndex index(store_);
    const std::uint32_t entry = index.of(record_, record_.labels, row);
    return entry == kNoModule ? "none" : std::string(index.name(entry));
  }

  Store store_;
  DeviceRecord record_;
};

TEST_F(ModulesByInstance, are_known_by_path_class_or_not_at_all) {
  module(0, "", "Net", true);
  module(1, "fc", "Linear");
  module(2, nullptr, "MSELoss");
  for (const std::uint32_t number : {0U, 1U, 2U, 77U, kNoModule}) alloc(number, 512);
  EXPECT_EQ(name_of(0), "Net");
  EXPECT_EQ(name_of(1), "fc");
  EXPECT_EQ(name_of(2), "MSELoss");
  EXPECT_EQ(name_of(3), "none");
  EXPECT_EQ(name_of(4), "none");
}

TEST_F(ModulesByInstance, the_last_name_of_a_number_holds) {
  module(5, nullptr, "Linear");
  module(5, "fc", "Linear");
  alloc(5, 512);
  EXPECT_EQ(name_of(0), "fc");
}

TEST_F(ModulesByInstance, parameters_gradients_and_state_are_their_owners) {
  module(0, "", "Net", true);
  module(1, "head", "Linear");
  module(2, "wte", "Embedding");
  alloc(kNoModule, 512, MemorySource::parameters, "wte.weight = head.weight");
  alloc(1, 512, MemorySource::gradients, "wte.weight.grad");
  alloc(kNoModule, 512, MemorySource::optimizer_state, "wte.weight exp_avg");
  alloc(kNoModule, 512, MemorySource::parameters, "scale");
  alloc(1, 512, MemorySource::gradients, "parameter 3.grad");
  alloc(1, 512, MemorySource::inputs, "wte.weight");
  EXPECT_EQ(name_of(0), "wte");
  EXPECT_EQ(name_of(1), "wte");
  EXPECT_EQ(name_of(2), "wte");
  EXPECT_EQ(name_of(3), "Net");
  EXPECT_EQ(name_of(5), "head");
}

TEST_F(ModulesByInstance, are_a_tree_of_paths) {
  module(0, "", "Net", true);
  module(1, "h", "ModuleList");
  module(2, "h.0", "Block");
  module(3, "h.0.fc", "Linear");
  module(4, "Teacher", "Teacher", true);
  module(5, "Teacher.fc", "Linear");
  alloc(3, 100);
  alloc(2, 10);
  alloc(5, 1000);
  alloc(kNoModule, 5);
  const std::vector<ModuleNode> nodes =
      modules_at(store_, record_, record_.labels, Moment::after(3));
  std::string text;
  for (const ModuleNode& node : nodes) {
    text += node.name + " " + std::to_string(node.bytes) + " " + std::to_string(node.self_bytes) +
            (node.parent == ModuleNode::kNoParent ? "" : " in " + nodes[node.parent].name) + "\n";
  }
  EXPECT_EQ(text,
            "Teacher 1000 0\n"
            "Teacher.fc 1000 1000 in Teacher\n"
            "Net 110 0\n"
            "h 110 0 in Net\n"
            "h.0 110 10 in h\n"
            "h.0.fc 100 100 in h.0\n");
}

TEST_F(ModulesByInstance, layers_of_a_kind_share_a_name) {
  module(0, "h.11.mlp.2", "Linear");
  module(1, "conv1", "Conv2d");
  const ModuleIndex index(store_);
  EXPECT_EQ(index.layer_name(0), "h.*.mlp.*");
  EXPECT_EQ(index.layer_name(1), "conv1");
}

}  // namespace
}  // namespace gpumemprof
