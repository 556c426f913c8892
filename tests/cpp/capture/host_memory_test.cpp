// Main memory, as this machine reports it, and which readings are worth storing.
#include "capture/ledger/host_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace gpumemprof::capture {
namespace {

constexpr std::uint64_t kGiB = 1ULL << 30U;

TEST(HostMemory, is_read_and_plausible) {
  const std::optional<HostMemory> host = read_host_memory();
  ASSERT_TRUE(host);
  EXPECT_GT(host->resident_bytes, 0U);
  EXPECT_LE(host->resident_bytes, host->total_bytes);
  EXPECT_LE(host->available_bytes, host->total_bytes);
}

class Groups {
 public:
  Groups()
      : folder_(std::filesystem::path(testing::TempDir()) /
                ("gpumemprof_groups_" + std::to_string(::getpid()))) {
    std::filesystem::remove_all(folder_);
  }
  ~Groups() { std::filesystem::remove_all(folder_); }
  Groups(const Groups&) = delete;
  Groups& operator=(const Groups&) = delete;

  void write(const std::string& file, const std::string& text) const {
    const std::filesystem::path path = folder_ / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text << "\n";
  }
  [[nodiscard]] HostMemory read(const std::string& groups) const {
    HostMemory host{kGiB, 90 * kGiB, 100 * kGiB};
    apply_limits(folder_.string(), groups, host);
    return host;
  }

 private:
  std::filesystem::path folder_;
};

TEST(HostMemory, is_that_of_the_job_whose_limit_leaves_least) {
  const Groups groups;
  groups.write("slurm/memory.max", "40000000000");
  groups.write("slurm/memory.current", "10000000000");
  groups.write("slurm/job/memory.max", "8000000000");
  groups.write("slurm/job/memory.current", "7900000000");
  groups.write("slurm/job/memory.stat", "anon 7500000000\ninactive_file 300000000");
  groups.write("slurm/job/step/memory.max", "max");
  const HostMemory host = groups.read("0::/slurm/job/step\n");
  EXPECT_EQ(host.total_bytes, 8000000000U);
  EXPECT_EQ(host.available_bytes, 400000000U);
}

TEST(HostMemory, counts_what_others_use_of_a_limit_they_share) {
  const Groups groups;
  groups.write("user/memory.max", "40000000000");
  groups.write("user/memory.current", "39000000000");
  groups.write("user/shell/memory.max", "8000000000");
  groups.write("user/shell/memory.current", "1000000000");
  const HostMemory host = groups.read("0::/user/shell\n");
  EXPECT_EQ(host.total_bytes, 40000000000U);
  EXPECT_EQ(host.available_bytes, 1000000000U);
}

TEST(HostMemory, reads_the_first_version_of_control_groups) {
  const Groups groups;
  groups.write("memory/job/memory.limit_in_bytes", "2000000000");
  groups.write("memory/job/memory.usage_in_bytes", "500000000");
  const HostMemory host = groups.read("5:cpu:/\n4:memory:/job\n0::/\n");
  EXPECT_EQ(host.total_bytes, 2000000000U);
  EXPECT_EQ(host.available_bytes, 1500000000U);
}

TEST(HostMemory, is_that_of_a_container_that_does_not_see_the_groups_above_it) {
  const Groups groups;
  groups.write("memory.max", "4000000000");
  groups.write("memory.current", "1000000000");
  for (const char* path : {"0::/\n", "0::/../other\n", "0::/not/mounted/here\n", "0::odd\n", ""}) {
    const HostMemory host = groups.read(path);
    EXPECT_EQ(host.total_bytes, 4000000000U) << path;
    EXPECT_EQ(host.available_bytes, 3000000000U) << path;
  }
}

TEST(HostMemory, is_that_of_the_machine_without_a_limit) {
  const Groups groups;
  groups.write("memory/memory.limit_in_bytes", "9223372036854771712");
  groups.write("memory/memory.usage_in_bytes", "500000000");
  const HostMemory host = groups.read("4:memory:/\n");
  EXPECT_EQ(host.total_bytes, 100 * kGiB);
  EXPECT_EQ(host.available_bytes, 90 * kGiB);
}

TEST(HostMemory, is_news_if_much_changed_or_little_is_left) {
  const HostMemory before{10 * kGiB, 50 * kGiB, 100 * kGiB};
  EXPECT_FALSE(is_news(before, before));
  EXPECT_FALSE(is_news(before, {12 * kGiB, 48 * kGiB, 100 * kGiB}));
  EXPECT_TRUE(is_news(before, {30 * kGiB, 30 * kGiB, 100 * kGiB}));
  const HostMemory low{50 * kGiB, 5 * kGiB, 100 * kGiB};
  EXPECT_TRUE(is_news(low, {52 * kGiB, 3 * kGiB, 100 * kGiB}));
  EXPECT_FALSE(is_news(low, {50 * kGiB, 5 * kGiB + 1, 100 * kGiB}));
}

TEST(HostMemory, is_stored_once_until_it_changes) {
  HostMemoryWatch watch;
  EXPECT_TRUE(watch.look());
  EXPECT_FALSE(watch.look());
}

}  // namespace
}  // namespace gpumemprof::capture
