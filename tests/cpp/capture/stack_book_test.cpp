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

}  // namespace
}  // namespace gpumemprof::capture
