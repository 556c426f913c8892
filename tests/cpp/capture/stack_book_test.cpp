#include "capture/stack_book.h"

#include <gtest/gtest.h>

#include <cstring>

namespace gpumemprof::capture {
namespace {

constexpr std::uint16_t kThread = 3;

// Sends a code object's description as the emitter does.
void describe(StackBook& book, std::uint16_t slot, const std::string& name,
              std::size_t most = SIZE_MAX) {
  CodeHead head;
  head.first_line = 40;
  head.name_bytes = static_cast<std::uint16_t>(name.size());
  head.file_bytes = 8;
  std::string all(reinterpret_cast<const char*>(&head), sizeof(head));
  all += name + "train.py";
  all.resize(std::min(all.size(), most));
  for (std::size_t at = 0; at < all.size(); at += CodeRecord::kBytes) {
    CodeRecord record;
    record.is_first = at == 0 ? 1 : 0;
    record.thread = kThread;
    record.slot = slot;
    record.length = static_cast<std::uint16_t>(std::min(all.size() - at, CodeRecord::kBytes));
    std::memcpy(record.bytes.data(), all.data() + at, record.length);
    book.take(record);
  }
}

void change(StackBook& book, std::uint16_t keep, std::initializer_list<std::uint32_t> codes) {
  FramesRecord record;
  record.thread = kThread;
  record.keep = keep;
  for (const std::uint32_t code : codes) record.frames[record.count++] = {code, 0};
  book.take(record);
}

std::string path(const StackBook& book) {
  std::string text;
  for (StackId id = book.stack_of(kThread); !id.is_none(); id = book.caller(id)) {
    text += std::string(book.text(book.frame(book.innermost(id)).name)) + " ";
  }
  return text;
}

TEST(StackBook, follows_a_stack_that_grows_and_shrinks) {
  StackBook book;
  describe(book, 1, "main");
  describe(book, 2, "train");
  describe(book, 9, std::string(100, 'x'));
  change(book, 0, {1, 2, 9});
  EXPECT_EQ(path(book), std::string(100, 'x') + " train main ");
  change(book, 2, {});
  EXPECT_EQ(path(book), "train main ");
  change(book, 1, {9});
  EXPECT_EQ(path(book), std::string(100, 'x') + " main ");
}

TEST(StackBook, counts_a_stack_once) {
  StackBook book;
  describe(book, 1, "main");
  change(book, 0, {1});
  const StackId first = book.stack_of(kThread);
  change(book, 0, {1, 1});
  change(book, 0, {1});
  EXPECT_EQ(book.stack_of(kThread), first);
  EXPECT_EQ(book.stack_count(), 2U);
}

TEST(StackBook, a_slot_that_names_another_code_leaves_older_stacks_alone) {
  StackBook book;
  describe(book, 1, "first");
  change(book, 0, {1});
  const StackId first = book.stack_of(kThread);
  describe(book, 1, "second");
  change(book, 0, {1});
  EXPECT_EQ(path(book), "second ");
  EXPECT_EQ(book.text(book.frame(book.innermost(first)).name), "first");
}

TEST(StackBook, does_not_guess_where_records_were_lost) {
  StackBook book;
  describe(book, 1, "main");
  change(book, 4, {1});
  EXPECT_EQ(path(book), "");
  change(book, 0, {2});
  EXPECT_EQ(path(book), "");
  describe(book, 2, "half", 20);
  change(book, 0, {2});
  EXPECT_EQ(path(book), "");
}

// The frame of a module's call, followed by the module's address.
void enter_module(StackBook& book, std::uint16_t keep, std::uint32_t code, std::uint64_t module) {
  FramesRecord record;
  record.thread = kThread;
  record.keep = keep;
  record.frames[record.count++] = {code | FramesRecord::kHasModule, 0};
  record.frames[record.count++] = FramesRecord::module_item(module);
  book.take(record);
}

std::string module_name(StackBook& book, StackId forward = StackId()) {
  const std::uint32_t number = book.module_of(book.stack_of(kThread), forward);
  if (number == kNoModule) return "none";
  const NumberedModule& module = book.modules().module(number);
  return module.is_named ? module.path : "class " + module.class_name;
}

void introduce(StackBook& book, std::uint64_t address, const std::string& class_name) {
  ModuleRecord record;
  record.address = address;
  record.length = static_cast<std::uint8_t>(class_name.size());
  std::memcpy(record.class_name.data(), class_name.data(), class_name.size());
  book.take(record);
}

TEST(StackBook, stacks_that_differ_in_a_module_are_different) {
  StackBook book;
  describe(book, 1, "main");
  describe(book, 2, "call");
  describe(book, 3, "forward");
  change(book, 0, {1});
  EXPECT_EQ(module_name(book), "none");
  const std::uint64_t first = 0x7f0000001234;
  const std::uint64_t second = 0x7f0000005678;
  book.modules().describe(first, {"h.0", "Block", true, false});
  book.modules().describe(second, {"h.1", "Block", true, false});
  enter_module(book, 1, 2, first);
  change(book, 2, {3});
  const StackId in_first = book.stack_of(kThread);
  EXPECT_EQ(module_name(book), "h.0");
  EXPECT_EQ(path(book), "forward call main ");
  enter_module(book, 1, 2, second);
  change(book, 2, {3});
  EXPECT_EQ(module_name(book), "h.1");
  EXPECT_NE(book.stack_of(kThread), in_first);
  enter_module(book, 1, 2, first);
  change(book, 2, {3});
  EXPECT_EQ(book.stack_of(kThread), in_first);
}

TEST(StackBook, in_backward_the_forward_operation_tells_the_module) {
  StackBook book;
  describe(book, 1, "main");
  describe(book, 2, "call");
  describe(book, 3, "_engine_run_backward");
  book.modules().describe(0x10, {"outer", "Outer", true, true});
  book.modules().describe(0x20, {"fc", "Linear", true, false});
  book.modules().describe(0x30, {"again", "Linear", true, false});
  change(book, 0, {1});
  enter_module(book, 1, 2, 0x20);
  const StackId forward = book.stack_of(kThread);
  // Also when backward runs inside a module's call.
  enter_module(book, 1, 2, 0x10);
  change(book, 2, {3});
  EXPECT_EQ(module_name(book, forward), "fc");
  EXPECT_EQ(module_name(book), "outer");
  // What the node itself calls, as a checkpoint does, takes precedence.
  enter_module(book, 3, 2, 0x30);
  EXPECT_EQ(module_name(book, forward), "again");
}

TEST(ModuleBook, a_module_that_is_named_later_keeps_its_number) {
  StackBook book;
  describe(book, 1, "call");
  introduce(book, 0x10, "Linear");
  enter_module(book, 0, 1, 0x10);
  EXPECT_EQ(module_name(book), "class Linear");
  book.modules().describe(0x10, {"fc", "Linear", true, false});
  EXPECT_EQ(module_name(book), "fc");
}

TEST(ModuleBook, what_takes_a_dead_modules_place_is_another) {
  StackBook book;
  describe(book, 1, "call");
  introduce(book, 0x10, "Linear");
  book.modules().describe(0x10, {"fc", "Linear", true, false});
  book.modules().forget(0x10);
  enter_module(book, 0, 1, 0x10);
  EXPECT_EQ(module_name(book), "class Linear");
  introduce(book, 0x10, "Conv2d");
  enter_module(book, 0, 1, 0x10);
  EXPECT_EQ(module_name(book), "class Conv2d");
}

TEST(ModuleBook, a_model_that_is_made_again_takes_no_more_numbers) {
  ModuleBook book;
  const std::uint32_t number = book.describe(0x10, {"fc", "Linear", true, false});
  book.forget(0x10);
  EXPECT_EQ(book.describe(0x50, {"fc", "Linear", true, false}), number);
  EXPECT_EQ(book.number_at(0x50), number);
}

}  // namespace
}  // namespace gpumemprof::capture
