// Collapsed stacks: one line for each stack, whatever its frames are called.
#include "report/folded/folded.h"

#include <gtest/gtest.h>

namespace gpumemprof {
namespace {

class Folded : public ::testing::Test {
 protected:
  StackId stack(StackId caller, std::string_view function, std::uint32_t line,
                std::string_view file = "/program/train.py") {
    return store_.add_stack(
        caller, store_.add_frame({store_.add_string(function), store_.add_string(file), line}));
  }

  void live(std::size_t device, StackId stack, std::uint64_t bytes, bool is_backward = false) {
    if (overview_.devices.size() <= device) overview_.devices.resize(device + 1);
    LiveSet& live = overview_.devices[device].live;
    live.groups.push_back({stack, is_backward, bytes, 1, bytes, {}});
    live.allocated_bytes += bytes;
  }

  [[nodiscard]] std::string text() const { return folded_stacks(overview_, store_); }

  Store store_;
  Overview overview_;
};

TEST_F(Folded, stacks_begin_with_the_outermost_frame) {
  store_.set_program_folder("/program/");
  const StackId main = stack({}, "main", 3);
  live(0, main, 512);
  live(0, stack(main, "step", 7), 1024);
  EXPECT_EQ(text(), "main (train.py:3) 512\nmain (train.py:3);step (train.py:7) 1024\n");
}

TEST_F(Folded, stacks_are_those_of_the_device_with_the_largest_peak) {
  live(0, stack({}, "small", 1), 10);
  live(1, stack({}, "large", 1), 30);
  live(2, stack({}, "middle", 1), 20);
  EXPECT_EQ(text(), "large (/program/train.py:1) 30\n");
}

TEST_F(Folded, frames_cannot_break_a_line) {
  live(0, stack({}, "a;b\nc\r\x1b[31m 99", 1, "/x;y\n.py"), 7);
  const std::string found = text();
  EXPECT_EQ(std::count(found.begin(), found.end(), '\n'), 1);
  EXPECT_EQ(found.find(';'), std::string::npos);
  EXPECT_EQ(found.find('\x1b'), std::string::npos);
  EXPECT_TRUE(found.ends_with(" 7\n"));
}

TEST_F(Folded, stacks_that_look_the_same_are_one_line) {
  live(0, stack({}, "a;b", 1), 7);
  live(0, stack({}, "a:b", 1), 5);
  EXPECT_EQ(text(), "a:b (/program/train.py:1) 12\n");
}

TEST_F(Folded, blocks_without_a_stack_have_a_line_of_their_own) {
  live(0, {}, 5);
  live(0, stack({}, "main", 3), 1);
  EXPECT_EQ(text(), "[no stack] 5\nmain (/program/train.py:3) 1\n");
}

TEST_F(Folded, memory_allocated_in_backward_is_below_its_forward_op) {
  const StackId main = stack({}, "main", 3);
  live(0, main, 1);
  live(0, main, 2, true);
  EXPECT_EQ(text(), "main (/program/train.py:3) 1\nmain (/program/train.py:3);[backward] 2\n");
}

TEST_F(Folded, no_device_is_an_empty_file) { EXPECT_EQ(text(), ""); }

TEST_F(Folded, a_full_disk_is_reported) {
  live(0, {}, 5);
  EXPECT_FALSE(write_folded_stacks(overview_, store_, "/dev/full", FileSink::Existing::replace));
}

}  // namespace
}  // namespace gpumemprof
