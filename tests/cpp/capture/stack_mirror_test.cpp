#include "capture/stacks/stack_mirror.h"

#include <gtest/gtest.h>

#include <cstring>

#include "capture/shown_files.h"

namespace gpumemprof::capture {
namespace {

constexpr std::uint16_t kThread = 3;

// Sends a code object's description as the emitter does.
void describe(StackMirror& mirror, std::uint16_t slot, const std::string& name,
              std::size_t most = SIZE_MAX, const std::string& file = "train.py") {
  CodeHead head;
  head.first_line = 40;
  head.name_bytes = static_cast<std::uint16_t>(name.size());
  head.file_bytes = static_cast<std::uint16_t>(file.size());
  std::string all(reinterpret_cast<const char*>(&head), sizeof(head));
  all += name + file;
  all.resize(std::min(all.size(), most));
  for (std::size_t at = 0; at < all.size(); at += CodeRecord::kBytes) {
    CodeRecord record;
    record.is_first = at == 0 ? 1 : 0;
    record.thread = kThread;
    record.slot = slot;
    record.length = static_cast<std::uint16_t>(std::min(all.size() - at, CodeRecord::kBytes));
    std::memcpy(record.bytes.data(), all.data() + at, record.length);
    mirror.take(record);
  }
}

void change(StackMirror& mirror, std::uint16_t keep, std::initializer_list<std::uint32_t> codes) {
  FramesRecord record;
  record.thread = kThread;
  record.keep = keep;
  for (const std::uint32_t code : codes) record.frames[record.count++] = {code, 0};
  mirror.take(record);
}

std::string path(const StackMirror& mirror) {
  std::string text;
  for (StackId id = mirror.stack_of(kThread); !id.is_none(); id = mirror.caller(id)) {
    text += std::string(mirror.text(mirror.frame(mirror.innermost(id)).name)) + " ";
  }
  return text;
}

TEST(StackMirror, shows_a_cell_by_the_number_that_it_was_last_run_with) {
  show_file_as("/tmp/ipykernel_7/286.py", "Cell In[3]");
  show_file_as("/tmp/ipykernel_7/286.py", "Cell In[4]");
  StackMirror mirror;
  describe(mirror, 1, "main", SIZE_MAX, "/tmp/ipykernel_7/286.py");
  describe(mirror, 2, "train", SIZE_MAX, "/tmp/ipykernel_7/2860.py");
  change(mirror, 0, {1, 2});
  const StackId id = mirror.stack_of(kThread);
  EXPECT_EQ(mirror.text(mirror.frame(mirror.innermost(id)).file), "/tmp/ipykernel_7/2860.py");
  EXPECT_EQ(mirror.text(mirror.frame(mirror.innermost(mirror.caller(id))).file), "Cell In[4]");
}

TEST(StackMirror, follows_a_stack_that_grows_and_shrinks) {
  StackMirror mirror;
  describe(mirror, 1, "main");
  describe(mirror, 2, "train");
  describe(mirror, 9, std::string(100, 'x'));
  change(mirror, 0, {1, 2, 9});
  EXPECT_EQ(path(mirror), std::string(100, 'x') + " train main ");
  change(mirror, 2, {});
  EXPECT_EQ(path(mirror), "train main ");
  change(mirror, 1, {9});
  EXPECT_EQ(path(mirror), std::string(100, 'x') + " main ");
}

TEST(StackMirror, leaves_out_the_frames_of_hidden_files) {
  StackMirror mirror;
  mirror.hide_files({"/lib/simulation/"});
  describe(mirror, 1, "main");
  describe(mirror, 2, "dispatch", SIZE_MAX, "/lib/simulation/dispatch.py");
  describe(mirror, 3, "helper", SIZE_MAX, "/lib/simulation.py");
  change(mirror, 0, {2});
  EXPECT_TRUE(mirror.stack_of(kThread).is_none());
  change(mirror, 0, {1, 2, 3, 2, 2});
  EXPECT_EQ(path(mirror), "helper main ");
  mirror.move(kThread, 4);
  EXPECT_EQ(path(mirror), "helper main ");
  change(mirror, 2, {1});
  EXPECT_EQ(path(mirror), "main main ");
}

TEST(StackMirror, counts_a_stack_once) {
  StackMirror mirror;
  describe(mirror, 1, "main");
  change(mirror, 0, {1});
  const StackId first = mirror.stack_of(kThread);
  change(mirror, 0, {1, 1});
  change(mirror, 0, {1});
  EXPECT_EQ(mirror.stack_of(kThread), first);
  EXPECT_EQ(mirror.stack_count(), 2U);
}

TEST(StackMirror, a_slot_that_names_another_code_leaves_older_stacks_alone) {
  StackMirror mirror;
  describe(mirror, 1, "first");
  change(mirror, 0, {1});
  const StackId first = mirror.stack_of(kThread);
  describe(mirror, 1, "second");
  change(mirror, 0, {1});
  EXPECT_EQ(path(mirror), "second ");
  EXPECT_EQ(mirror.text(mirror.frame(mirror.innermost(first)).name), "first");
}

TEST(StackMirror, does_not_guess_where_records_were_lost) {
  StackMirror mirror;
  describe(mirror, 1, "main");
  change(mirror, 4, {1});
  EXPECT_EQ(path(mirror), "");
  change(mirror, 0, {2});
  EXPECT_EQ(path(mirror), "");
  describe(mirror, 2, "half", 20);
  change(mirror, 0, {2});
  EXPECT_EQ(path(mirror), "");
}

// The frame of a module's call, followed by the module's address.
void enter_module(StackMirror& mirror, std::uint16_t keep, std::uint32_t code,
                  std::uint64_t module) {
  FramesRecord record;
  record.thread = kThread;
  record.keep = keep;
  record.frames[record.count++] = {code | FramesRecord::kHasModule, 0};
  record.frames[record.count++] = FramesRecord::module_item(module);
  mirror.take(record);
}

std::string module_name(StackMirror& mirror, StackId forward = StackId()) {
  const std::uint32_t number = mirror.module_of(mirror.stack_of(kThread), forward);
  if (number == kNoModule) return "none";
  const NumberedModule& module = mirror.modules().module(number);
  return module.is_named ? module.path : "class " + module.class_name;
}

void introduce(StackMirror& mirror, std::uint64_t address, const std::string& class_name) {
  ModuleRecord record;
  record.address = address;
  record.length = static_cast<std::uint8_t>(class_name.size());
  std::memcpy(record.class_name.data(), class_name.data(), class_name.size());
  mirror.take(record);
}

TEST(StackMirror, stacks_that_differ_in_a_module_are_different) {
  StackMirror mirror;
  describe(mirror, 1, "main");
  describe(mirror, 2, "call");
  describe(mirror, 3, "forward");
  change(mirror, 0, {1});
  EXPECT_EQ(module_name(mirror), "none");
  const std::uint64_t first = 0x7f0000001234;
  const std::uint64_t second = 0x7f0000005678;
  mirror.modules().describe(first, {"h.0", "Block", true, false});
  mirror.modules().describe(second, {"h.1", "Block", true, false});
  enter_module(mirror, 1, 2, first);
  change(mirror, 2, {3});
  const StackId in_first = mirror.stack_of(kThread);
  EXPECT_EQ(module_name(mirror), "h.0");
  EXPECT_EQ(path(mirror), "forward call main ");
  enter_module(mirror, 1, 2, second);
  change(mirror, 2, {3});
  EXPECT_EQ(module_name(mirror), "h.1");
  EXPECT_NE(mirror.stack_of(kThread), in_first);
  enter_module(mirror, 1, 2, first);
  change(mirror, 2, {3});
  EXPECT_EQ(mirror.stack_of(kThread), in_first);
}

TEST(StackMirror, in_backward_the_forward_operation_determines_the_module) {
  StackMirror mirror;
  describe(mirror, 1, "main");
  describe(mirror, 2, "call");
  describe(mirror, 3, "_engine_run_backward");
  mirror.modules().describe(0x10, {"outer", "Outer", true, true});
  mirror.modules().describe(0x20, {"fc", "Linear", true, false});
  mirror.modules().describe(0x30, {"again", "Linear", true, false});
  change(mirror, 0, {1});
  enter_module(mirror, 1, 2, 0x20);
  const StackId forward = mirror.stack_of(kThread);
  // Also when backward runs inside a module's call.
  enter_module(mirror, 1, 2, 0x10);
  change(mirror, 2, {3});
  EXPECT_EQ(module_name(mirror, forward), "fc");
  EXPECT_EQ(module_name(mirror), "outer");
  // What the node itself calls, as a checkpoint does, takes precedence.
  enter_module(mirror, 3, 2, 0x30);
  EXPECT_EQ(module_name(mirror, forward), "again");
}

TEST(ModuleNumbers, a_module_that_is_named_later_keeps_its_number) {
  StackMirror mirror;
  describe(mirror, 1, "call");
  introduce(mirror, 0x10, "Linear");
  enter_module(mirror, 0, 1, 0x10);
  EXPECT_EQ(module_name(mirror), "class Linear");
  mirror.modules().describe(0x10, {"fc", "Linear", true, false});
  EXPECT_EQ(module_name(mirror), "fc");
}

TEST(ModuleNumbers, a_module_at_a_destroyed_modules_address_is_another_one) {
  StackMirror mirror;
  describe(mirror, 1, "call");
  introduce(mirror, 0x10, "Linear");
  mirror.modules().describe(0x10, {"fc", "Linear", true, false});
  mirror.modules().forget(0x10);
  enter_module(mirror, 0, 1, 0x10);
  EXPECT_EQ(module_name(mirror), "class Linear");
  introduce(mirror, 0x10, "Conv2d");
  enter_module(mirror, 0, 1, 0x10);
  EXPECT_EQ(module_name(mirror), "class Conv2d");
}

TEST(ModuleNumbers, a_model_that_is_made_again_takes_no_more_numbers) {
  ModuleNumbers numbers;
  const std::uint32_t number = numbers.describe(0x10, {"fc", "Linear", true, false});
  numbers.forget(0x10);
  EXPECT_EQ(numbers.describe(0x50, {"fc", "Linear", true, false}), number);
  EXPECT_EQ(numbers.number_at(0x50), number);
}

}  // namespace
}  // namespace gpumemprof::capture
