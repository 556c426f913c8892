// What became of allocations is known when their window is shown again, whether it waited in memory
// or in a file.
#include "windows/fates.h"

#include <gtest/gtest.h>

namespace gpumemprof {
namespace {

Fate fate_of(std::uint64_t key, std::uint32_t freed) {
  Fate fate;
  fate.key = key;
  fate.free_requested = freed;
  fate.free_completed = freed + 1;
  fate.event.address = key * 512;
  return fate;
}

// Windows are shown after 100, 200, 300, 400 events.
class SurveyedFates : public testing::Test {
 protected:
  void SetUp() override {
    fates_.end_window(100);
    fates_.add(fate_of(90, 110));                         // of the first window, until the second
    fates_.add(fate_of((std::uint64_t{1} << 32U), 120));  // older than the run
    fates_.end_window(200);
    fates_.add(fate_of(150, 210));
    fates_.add(fate_of(95, 220));  // live at two showings
    fates_.end_window(300);
    fates_.end_window(400);  // nothing was live
  }
  Fates fates_;
};

TEST_F(SurveyedFates, AreThoseOfWhatIsLive) {
  FateReader reader(fates_);
  reader.begin_window(100);
  ASSERT_NE(reader.find(90), nullptr);
  EXPECT_EQ(reader.find(90)->free_requested, 110);
  EXPECT_EQ(reader.find(90)->free_completed, 111);
  EXPECT_EQ(reader.find(90)->event.address, 90 * 512);
  ASSERT_NE(reader.find(95), nullptr);
  EXPECT_EQ(reader.find(95)->free_requested, 220);
  ASSERT_NE(reader.find(std::uint64_t{1} << 32U), nullptr);
  EXPECT_EQ(reader.find(150), nullptr);  // not made yet
  reader.begin_window(200);
  EXPECT_EQ(reader.find(90), nullptr);
  ASSERT_NE(reader.find(150), nullptr);
  EXPECT_EQ(reader.find(150)->free_requested, 210);
  ASSERT_NE(reader.find(95), nullptr);
  reader.begin_window(300);
  EXPECT_EQ(reader.find(150), nullptr);
}

// A pass that reads in other portions finds them too.
TEST_F(SurveyedFates, AreFoundBetweenTheShowings) {
  FateReader reader(fates_);
  for (const std::uint32_t read : {101U, 105U, 110U}) {
    reader.begin_window(read);
    EXPECT_NE(reader.find(90), nullptr) << read;
  }
  reader.begin_window(160);
  EXPECT_NE(reader.find(150), nullptr);
}

}  // namespace
}  // namespace gpumemprof
