// The C interface where a caller is older or newer than the library, or wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string>

#include "gpumemprof/gpumemprof.h"

namespace {

const std::string kClean =
    std::string(GPUMEMPROF_TEST_DATA) + "/snapshots/clean_training.pickle.gz";

class CInterface : public testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(recording_, nullptr); }
  void TearDown() override { gpumemprof_close(recording_); }

  gpumemprof_recording* recording_ = gpumemprof_open(kClean.c_str(), nullptr);
};

TEST_F(CInterface, FillsOnlyWhatAnOlderCallerKnows) {
  struct {
    std::uint64_t address;
    std::uint64_t size_bytes;
    std::uint64_t guard;
  } old = {0, 0, 42};
  constexpr std::size_t kOldSize = 2 * sizeof(std::uint64_t);
  ASSERT_EQ(gpumemprof_read_allocations(
                recording_, 0, 3, reinterpret_cast<gpumemprof_allocation*>(&old), 1, kOldSize),
            1U);
  gpumemprof_allocation row;
  ASSERT_EQ(gpumemprof_read_allocations(recording_, 0, 3, &row, 1, sizeof(row)), 1U);
  EXPECT_EQ(old.address, row.address);
  EXPECT_EQ(old.size_bytes, row.size_bytes);
  EXPECT_EQ(old.guard, 42U);
}

TEST_F(CInterface, ZeroesWhatOnlyANewerCallerKnows) {
  struct {
    gpumemprof_moment known;
    std::uint64_t later;
  } newer;
  std::memset(&newer, 0xff, sizeof(newer));
  ASSERT_EQ(gpumemprof_read_moments(recording_, 0, 5, &newer.known, 1, sizeof(newer)), 1U);
  EXPECT_EQ(newer.known.event, 5U);
  EXPECT_EQ(newer.later, 0U);
}

TEST_F(CInterface, ReadsNothingPastTheEnd) {
  std::array<gpumemprof_event, 2> rows;
  EXPECT_EQ(gpumemprof_read_events(recording_, 0, UINT64_MAX, rows.data(), 2, sizeof(rows[0])), 0U);
  EXPECT_EQ(gpumemprof_read_events(recording_, 99, 0, rows.data(), 2, sizeof(rows[0])), 0U);
  gpumemprof_device device;
  ASSERT_EQ(gpumemprof_get_device(recording_, 0, &device, sizeof(device), nullptr), 1);
  EXPECT_EQ(
      gpumemprof_read_events(recording_, 0, device.events - 1, rows.data(), 2, sizeof(rows[0])),
      1U);
}

TEST_F(CInterface, ReportsAWrongCallAsAnError) {
  gpumemprof_error* error = nullptr;
  gpumemprof_device device;
  EXPECT_EQ(gpumemprof_get_device(recording_, 7, &device, sizeof(device), &error), 0);
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(gpumemprof_error_kind(error), GPUMEMPROF_USAGE);
  gpumemprof_error_free(error);

  error = nullptr;
  gpumemprof_source_bytes bytes;
  EXPECT_EQ(gpumemprof_sources_at(recording_, 0, UINT32_MAX, &bytes, sizeof(bytes), &error), 0);
  ASSERT_NE(error, nullptr);
  gpumemprof_error_free(error);

  EXPECT_EQ(gpumemprof_open(nullptr, nullptr), nullptr);
}

TEST(CNames, AreEmptyForNumbersThatAreNone) {
  EXPECT_STREQ(gpumemprof_action_name(0), "alloc");
  EXPECT_STREQ(gpumemprof_action_name(-1), "");
  EXPECT_STREQ(gpumemprof_action_name(1000), "");
  EXPECT_STREQ(gpumemprof_source_name(1000), "");
  EXPECT_STREQ(gpumemprof_phase_name(-3), "");
  EXPECT_STREQ(gpumemprof_version(), GPUMEMPROF_VERSION_TEXT);
}

TEST(CRecorder, SaysThatThereIsNoTorchToRecord) {
  gpumemprof_error* error = nullptr;
  EXPECT_EQ(gpumemprof_record((testing::TempDir() + "none.gmp").c_str(), nullptr, 0, &error),
            nullptr);
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(gpumemprof_error_kind(error), GPUMEMPROF_ENVIRONMENT);
  EXPECT_THAT(gpumemprof_error_sentence(error), testing::HasSubstr("libc10"));
  gpumemprof_error_free(error);
}

TEST(CRecorder, NeverFailsWhereNothingIsRecorded) {
  gpumemprof_record_step();
  gpumemprof_record_optimizer(0, 1);
  gpumemprof_record_restore_tag(gpumemprof_record_tag("x"));
  gpumemprof_error* error = nullptr;
  const gpumemprof_label bad = {17, -1, 64, "x"};
  EXPECT_EQ(gpumemprof_define_labels(&bad, 1, &error), GPUMEMPROF_NONE);
  ASSERT_NE(error, nullptr);
  gpumemprof_error_free(error);
}

}  // namespace
