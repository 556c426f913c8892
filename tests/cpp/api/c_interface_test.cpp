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
  EXPECT_THAT(gpumemprof_error_sentence(error), testing::EndsWith("; name another one"));
  gpumemprof_error_free(error);

  EXPECT_EQ(gpumemprof_open(nullptr, nullptr), nullptr);
}

// An error with the code for a wrong call; frees it.
void expect_usage_error(gpumemprof_error*& error) {
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(gpumemprof_error_kind(error), GPUMEMPROF_USAGE);
  EXPECT_STRNE(gpumemprof_error_sentence(error), "");
  gpumemprof_error_free(error);
  error = nullptr;
}

TEST_F(CInterface, RefusesOptionsThatNameNothing) {
  gpumemprof_error* error = nullptr;
  gpumemprof_simulate_options simulate{};
  simulate.device = 65536;  // does not become device 0
  EXPECT_EQ(gpumemprof_simulate(recording_, &simulate, sizeof(simulate), &error), nullptr);
  expect_usage_error(error);
  simulate.device = GPUMEMPROF_ANY_DEVICE;
  simulate.alloc_conf_count = 2;
  EXPECT_EQ(gpumemprof_simulate(recording_, &simulate, sizeof(simulate), &error), nullptr);
  expect_usage_error(error);
  simulate.alloc_conf_count = 0;
  simulate.memory_limit_count = 1;
  EXPECT_EQ(gpumemprof_simulate(recording_, &simulate, sizeof(simulate), &error), nullptr);
  expect_usage_error(error);
  const char* backend = "backend:cudaMallocAsync";
  simulate.memory_limit_count = 0;
  simulate.alloc_confs = &backend;
  simulate.alloc_conf_count = 1;
  EXPECT_EQ(gpumemprof_simulate(recording_, &simulate, sizeof(simulate), &error), nullptr);
  ASSERT_NE(error, nullptr);
  EXPECT_THAT(gpumemprof_error_hint(error), testing::HasSubstr("`alloc_confs`"));
  expect_usage_error(error);
  gpumemprof_advise_options advise = {GPUMEMPROF_UNKNOWN, GPUMEMPROF_UNKNOWN, GPUMEMPROF_UNKNOWN,
                                      -65536, nullptr};
  EXPECT_EQ(gpumemprof_advise(recording_, &advise, sizeof(advise), &error), nullptr);
  expect_usage_error(error);
}

TEST_F(CInterface, SaysThatARecordingHasNoSuchDevice) {
  const auto expect_no_device = [](gpumemprof_error* error) {
    ASSERT_NE(error, nullptr);
    EXPECT_EQ(gpumemprof_error_kind(error), GPUMEMPROF_USAGE);
    EXPECT_STREQ(gpumemprof_error_message(error), "there is no device 77 in it");
    EXPECT_STREQ(gpumemprof_error_hint(error), "it holds cuda:0");
    gpumemprof_error_free(error);
  };
  gpumemprof_error* error = nullptr;
  gpumemprof_simulate_options simulate{};
  simulate.device = 77;
  EXPECT_EQ(gpumemprof_simulate(recording_, &simulate, sizeof(simulate), &error), nullptr);
  expect_no_device(error);
  error = nullptr;
  const gpumemprof_advise_options advise = {GPUMEMPROF_UNKNOWN, GPUMEMPROF_UNKNOWN,
                                            GPUMEMPROF_UNKNOWN, 77, nullptr};
  EXPECT_EQ(gpumemprof_advise(recording_, &advise, sizeof(advise), &error), nullptr);
  expect_no_device(error);
}

TEST(CNull, IsAnErrorOrHasNoRows) {
  gpumemprof_error* error = nullptr;
  gpumemprof_device device;
  EXPECT_EQ(gpumemprof_get_device(nullptr, 0, &device, sizeof(device), &error), 0);
  expect_usage_error(error);
  gpumemprof_source_bytes bytes;
  EXPECT_EQ(gpumemprof_sources_at(nullptr, 0, 0, &bytes, sizeof(bytes), &error), 0);
  expect_usage_error(error);
  EXPECT_EQ(gpumemprof_simulate(nullptr, nullptr, 0, &error), nullptr);
  expect_usage_error(error);
  EXPECT_EQ(gpumemprof_advise(nullptr, nullptr, 0, &error), nullptr);
  expect_usage_error(error);
  for (char* (*document)(const gpumemprof_recording*, gpumemprof_error**) :
       {gpumemprof_info_json, gpumemprof_report_json, gpumemprof_leaks_json}) {
    EXPECT_EQ(document(nullptr, &error), nullptr);
    expect_usage_error(error);
  }
  EXPECT_EQ(gpumemprof_simulation_json(nullptr, &error), nullptr);
  expect_usage_error(error);
  EXPECT_EQ(gpumemprof_advice_json(nullptr, &error), nullptr);
  expect_usage_error(error);

  gpumemprof_event event;
  EXPECT_EQ(gpumemprof_read_events(nullptr, 0, 0, &event, 1, sizeof(event)), 0U);
  gpumemprof_allocation allocation;
  EXPECT_EQ(gpumemprof_read_allocations(nullptr, 0, 0, &allocation, 1, sizeof(allocation)), 0U);
  gpumemprof_moment moment;
  EXPECT_EQ(gpumemprof_read_moments(nullptr, 0, 0, &moment, 1, sizeof(moment)), 0U);
  gpumemprof_source source;
  EXPECT_EQ(gpumemprof_read_sources(nullptr, 0, 0, &source, 1, sizeof(source)), 0U);
  gpumemprof_step step;
  EXPECT_EQ(gpumemprof_read_steps(nullptr, 0, 0, &step, 1, sizeof(step)), 0U);
  gpumemprof_frame frame;
  EXPECT_EQ(gpumemprof_read_stack(nullptr, 0, &frame, 1, sizeof(frame)), 0U);
  EXPECT_EQ(gpumemprof_line_of_stack(nullptr, 0, &frame, sizeof(frame)), 0);
  gpumemprof_simulated run;
  EXPECT_EQ(gpumemprof_read_simulated(nullptr, 0, &run, 1, sizeof(run)), 0U);
  gpumemprof_remedy remedy;
  EXPECT_EQ(gpumemprof_read_remedies(nullptr, 0, &remedy, 1, sizeof(remedy)), 0U);
  gpumemprof_recording_info info;
  info.devices = 7;
  gpumemprof_get_info(nullptr, &info, sizeof(info));
  EXPECT_EQ(info.devices, 0U);
  gpumemprof_advice_summary advice;
  advice.is_fit_found = 1;
  gpumemprof_get_advice(nullptr, &advice, sizeof(advice));
  EXPECT_EQ(advice.is_fit_found, 0U);

  gpumemprof_close(nullptr);
  gpumemprof_simulation_free(nullptr);
  gpumemprof_advice_free(nullptr);
  gpumemprof_text_free(nullptr);
  gpumemprof_error_free(nullptr);
}

// A call that fails where there is no memory for the error leaves it null.
TEST(CNull, AsAnErrorSaysThatThereIsNoMemory) {
  EXPECT_EQ(gpumemprof_error_kind(nullptr), GPUMEMPROF_ENVIRONMENT);
  EXPECT_STREQ(gpumemprof_error_sentence(nullptr), "not enough memory");
  EXPECT_STREQ(gpumemprof_error_message(nullptr), "not enough memory");
  EXPECT_STREQ(gpumemprof_error_where(nullptr), "");
  EXPECT_STREQ(gpumemprof_error_hint(nullptr), "");
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
  EXPECT_THAT(gpumemprof_error_message(error), testing::HasSubstr("has not loaded libtorch"));
  gpumemprof_error_free(error);
}

TEST(CRecorder, RefusesWhatNamesNothing) {
  gpumemprof_error* error = nullptr;
  gpumemprof_record_options options{};
  options.memory = 7;
  EXPECT_EQ(gpumemprof_record((testing::TempDir() + "none.gmp").c_str(), &options, sizeof(options),
                              &error),
            nullptr);
  expect_usage_error(error);
  EXPECT_EQ(gpumemprof_record(nullptr, nullptr, 0, &error), nullptr);
  expect_usage_error(error);
  EXPECT_EQ(gpumemprof_define_labels(nullptr, 1, &error), GPUMEMPROF_NONE);
  expect_usage_error(error);
  const gpumemprof_label elsewhere = {GPUMEMPROF_LABEL_PARAMETER, 65536, 64, "x"};
  EXPECT_EQ(gpumemprof_define_labels(&elsewhere, 1, &error), GPUMEMPROF_NONE);
  expect_usage_error(error);
  EXPECT_EQ(gpumemprof_record_stop(nullptr, nullptr, 0, &error), 1);
  EXPECT_EQ(error, nullptr);
  EXPECT_EQ(gpumemprof_record_tag(nullptr), 0U);
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
