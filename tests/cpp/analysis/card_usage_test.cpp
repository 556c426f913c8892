// From the pool to the card, with figures recorded on an H200: one process, alone on
// the card, that uses one library after another.
#include "analysis/card_usage/card_usage.h"

#include <gtest/gtest.h>

#include <numeric>

#include "replay/replay.h"

namespace gpumemprof {
namespace {

constexpr std::uint64_t kCard = 150'754'820'096;
constexpr std::uint64_t kFirmware = 644'939'776;
constexpr std::uint64_t kDriver = 9'240'576;

class CardUsageTest : public ::testing::Test {
 protected:
  CardUsageTest() {
    store_.add_stream(0);
    Origin origin;
    origin.has_start = true;
    origin.has_traces = true;
    store_.set_origin(origin);
  }

  void reserve(std::uint64_t size_bytes) { add(Action::segment_alloc, next_address_, size_bytes); }
  // At the start of a segment that reserve() made.
  std::uint64_t allocate(std::uint64_t size_bytes, StackId stack = {}) {
    const std::uint64_t address = next_address_;
    reserve(size_bytes);
    events_.push_back(
        {Action::alloc, address, size_bytes, 0, kUnknownTime, stack, {}, {}, kNoPool, {}});
    next_address_ += std::uint64_t{1} << 30;
    return address;
  }
  void sample(std::uint64_t process_bytes, std::uint8_t libraries = 0) {
    DeviceSample row;
    row.device = 0;
    row.time_ns = static_cast<std::int64_t>(events_.size());
    row.total_bytes = kCard;
    row.process_bytes = process_bytes;
    row.other_processes_bytes = 0;
    row.used_bytes = process_bytes + kDriver;
    row.firmware_bytes = kFirmware;
    row.before_event = static_cast<std::uint32_t>(events_.size());
    row.libraries = libraries;
    store_.add_sample(row);
  }
  StackId stack(std::string_view file, std::string_view name) {
    const Frame frame{store_.add_string(name), store_.add_string(file), 1};
    return store_.add_stack(StackId(), store_.add_frame(frame));
  }

  std::optional<CardUsage> find() {
    store_.add_events(0, std::move(events_));
    DeviceRecord& record = *store_.devices().at(0);
    replay_device(record, store_.settings(), store_.origin());
    return find_card_usage(store_, record);
  }
  static std::uint64_t held(const CardUsage& usage, OutsideKind kind) {
    return usage.outside_by_kind.at(static_cast<std::size_t>(kind));
  }

  Store store_;
  EventColumns events_;

 private:
  void add(Action action, std::uint64_t address, std::uint64_t size_bytes) {
    events_.push_back({action, address, size_bytes, 0, kUnknownTime, {}, {}, {}, kNoPool, {}});
  }
  std::uint64_t next_address_ = 0x7f0000000000;
};

TEST_F(CardUsageTest, tells_what_each_library_took_and_adds_up_to_the_card) {
  sample(543'162'368);  // the context alone
  allocate(20'971'520);
  sample(564'133'888);
  sample(660'602'880);  // the first kernel
  allocate(33'554'432);
  allocate(2'097'152);
  sample(765'460'480);  // cuBLAS, its workspace in the pool
  allocate(2'097'152);
  sample(775'946'240, DeviceSample::kCudnn);
  allocate(4'194'304);
  sample(880'803'840, DeviceSample::kCudnn | DeviceSample::kCusolver);
  sample(1'474'297'856, DeviceSample::kCudnn | DeviceSample::kCusolver | DeviceSample::kNccl);
  const std::optional<CardUsage> usage = find();
  ASSERT_TRUE(usage);
  EXPECT_EQ(held(*usage, OutsideKind::context), 543'162'368U);
  EXPECT_EQ(held(*usage, OutsideKind::kernels), 96'468'992U);
  EXPECT_EQ(held(*usage, OutsideKind::cublas), 69'206'016U);
  EXPECT_EQ(held(*usage, OutsideKind::cudnn), 8'388'608U);
  EXPECT_EQ(held(*usage, OutsideKind::cusolver), 100'663'296U);
  EXPECT_EQ(held(*usage, OutsideKind::nccl), 593'494'016U);
  EXPECT_EQ(held(*usage, OutsideKind::before_recording), 0U);
  const std::uint64_t outside = std::accumulate(usage->outside_by_kind.begin(),
                                                usage->outside_by_kind.end(), std::uint64_t{0});
  EXPECT_EQ(usage->reserved_bytes + outside, *usage->process_bytes);
  EXPECT_EQ(*usage->process_bytes, 1'474'297'856U);
  EXPECT_EQ(
      usage->allocated_bytes + usage->pending_bytes + usage->split_bytes + usage->cached_bytes,
      usage->reserved_bytes);
  EXPECT_EQ(*usage->driver_bytes, kDriver);
  EXPECT_EQ(*usage->process_bytes + *usage->other_processes_bytes + *usage->driver_bytes +
                *usage->firmware_bytes + *usage->free_bytes,
            kCard);
  EXPECT_TRUE(usage->is_consistent);
}

TEST_F(CardUsageTest, of_a_program_that_ran_before_does_not_claim_to_know_its_context) {
  allocate(2'097'152);
  sample(600'000'000);
  const std::optional<CardUsage> usage = find();
  ASSERT_TRUE(usage);
  EXPECT_EQ(held(*usage, OutsideKind::context), 0U);
  EXPECT_EQ(held(*usage, OutsideKind::before_recording), 600'000'000U - 2'097'152U);
}

TEST_F(CardUsageTest, is_unknown_where_the_driver_names_no_process) {
  allocate(2'097'152);
  DeviceSample row;
  row.used_bytes = 5'000'000;
  row.total_bytes = 10'000'000;
  row.before_event = 2;
  store_.add_sample(row);
  const std::optional<CardUsage> usage = find();
  ASSERT_TRUE(usage);
  EXPECT_FALSE(usage->process_bytes);
  EXPECT_FALSE(usage->outside_bytes);
  EXPECT_FALSE(usage->driver_bytes);
  EXPECT_FALSE(usage->firmware_bytes);
  EXPECT_EQ(*usage->free_bytes, 5'000'000U);
  EXPECT_EQ(usage->reserved_bytes, 2'097'152U);
}

TEST_F(CardUsageTest, gives_back_what_was_taken_last) {
  sample(100);
  sample(150, DeviceSample::kCudnn);
  sample(130, DeviceSample::kCudnn);
  const std::optional<CardUsage> usage = find();
  ASSERT_TRUE(usage);
  EXPECT_EQ(held(*usage, OutsideKind::context), 100U);
  EXPECT_EQ(held(*usage, OutsideKind::cudnn), 30U);
}

TEST_F(CardUsageTest, says_so_where_pool_and_driver_do_not_fit_together) {
  allocate(2'097'152);
  sample(1'000'000);
  const std::optional<CardUsage> usage = find();
  ASSERT_TRUE(usage);
  EXPECT_FALSE(usage->is_consistent);
}

TEST_F(CardUsageTest, is_known_by_the_code_that_used_a_library) {
  sample(100'000'000);
  allocate(2'097'152, stack("/lib/torch/nn/modules/conv.py", "Conv2d._conv_forward"));
  sample(110'000'000);
  allocate(2'097'152, stack("/lib/torch/distributed/distributed_c10d.py", "all_gather"));
  sample(700'000'000);
  const std::optional<CardUsage> usage = find();
  ASSERT_TRUE(usage);
  EXPECT_EQ(held(*usage, OutsideKind::cudnn), 10'000'000U - 2'097'152U);
  EXPECT_EQ(held(*usage, OutsideKind::nccl), 590'000'000U - 2'097'152U);
  ASSERT_EQ(usage->growth.size(), 3U);
  EXPECT_FALSE(usage->growth.back().stack.is_none());
}

TEST_F(CardUsageTest, code_that_talks_to_other_ranks_without_nccl_is_not_nccl) {
  Origin origin = store_.origin();
  origin.facts = {{"device 0 nccl_communicators", "0"}};
  store_.set_origin(origin);
  sample(100'000'000);
  allocate(2'097'152, stack("/lib/torch/distributed/distributed_c10d.py", "all_gather"));
  sample(700'000'000);
  const std::optional<CardUsage> usage = find();
  ASSERT_TRUE(usage);
  EXPECT_EQ(held(*usage, OutsideKind::nccl), 0U);
  EXPECT_EQ(held(*usage, OutsideKind::kernels), 600'000'000U - 2'097'152U);
}

TEST_F(CardUsageTest, needs_a_sample) {
  allocate(2'097'152);
  EXPECT_FALSE(find());
}

}  // namespace
}  // namespace gpumemprof
