// Recordings of random requests on a simulated card, as files and as folders of chapters.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "capture/capture.h"
#include "estimate/simulated_device.h"

namespace gpumemprof {

namespace fs = std::filesystem;

class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = (fs::temp_directory_path() / "gpumemprof-XXXXXX").string();
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    path_ = name;
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder() { fs::remove_all(path_); }
  [[nodiscard]] std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

struct Workload {
  std::string settings;
  std::uint64_t device_bytes = std::uint64_t{8} << 30;
  int operations = 6'000;
  std::uint32_t seed = 1;
  int flush_every = 0;  // operations; 0: whenever the recorder does
};

inline capture::StartOptions options_of(const std::string& path, std::uint64_t keep_bytes) {
  capture::StartOptions options;
  options.path = path;
  options.memory = capture::MemoryKind::cuda;
  options.with_stacks = false;
  options.is_predicted = true;
  options.keep_bytes = keep_bytes;
  options.chapter_events = 500;
  return options;
}

// What the allocator itself counted.
struct Truth {
  std::uint64_t peak_allocated_bytes = 0;
  std::uint64_t peak_reserved_bytes = 0;
  std::uint64_t allocated_bytes = 0;
  std::uint64_t reserved_bytes = 0;
};

// Random requests on a simulated card, recorded into each of these at once.
inline Truth record(const Workload& run, const std::vector<capture::StartOptions>& outputs) {
  estimate::SimulatedDeviceOptions device_options;
  device_options.total_bytes = device_options.free_bytes = run.device_bytes;
  device_options.settings = run.settings;
  device_options.version = {2, 11};
  auto device = estimate::SimulatedDevice::create(device_options);
  EXPECT_TRUE(device);
  std::vector<capture::RecordingNumber> numbers;
  for (const capture::StartOptions& options : outputs) {
    const Result<capture::RecordingNumber> number = capture::start(options);
    EXPECT_TRUE(number.ok());
    numbers.push_back(number.value());
    capture::join_simulated(number.value(), 0);
    capture::set_settings(number.value(),
                          parse_alloc_conf(run.settings, device_options.version).value().settings);
  }
  std::mt19937 random(run.seed);
  std::vector<std::uint64_t> live;
  for (int operation = 0; operation < run.operations; ++operation) {
    if (operation % 200 == 0)
      capture::mark_phase(PhaseMark::Kind::step_start, static_cast<std::uint32_t>(operation / 200));
    if (run.flush_every > 0 && operation % run.flush_every == 0)
      std::ranges::for_each(numbers, capture::flush_recording);
    if (random() % 1'000 == 0) device.value()->empty_cache();
    if (random() % 100 < 52) {
      const std::uint64_t most = std::uint64_t{1} << (9 + random() % 18);
      const std::uint64_t stream = random() % 8 == 0 ? 7 : 0;
      const PoolId pool{random() % 16 == 0 ? std::uint64_t{1} : 0, 0};
      if (const auto address = device.value()->allocate(1 + random() % most, stream, pool))
        live.push_back(*address);
    } else if (!live.empty()) {
      std::swap(live[random() % live.size()], live.back());
      EXPECT_TRUE(device.value()->free(live.back()));
      live.pop_back();
    }
    if (operation % 500 == 499) {
      std::vector<capture::StorageLabel> labels;
      for (std::size_t row = 0; row < live.size(); row += 3)
        labels.push_back({LabelKind::parameter, 0, live[row], "weight." + std::to_string(row)});
      capture::apply_labels(capture::define_labels(std::move(labels)));
    }
  }
  for (const capture::RecordingNumber number : numbers) {
    const capture::Summary summary = capture::stop(number, "stop");
    EXPECT_EQ(summary.problem, "");
    EXPECT_EQ(summary.lost_events, 0);
  }
  return {device.value()->peak_allocated_bytes(), device.value()->peak_reserved_bytes(),
          device.value()->counters().allocated_bytes.current(),
          device.value()->counters().reserved_bytes.current()};
}

inline constexpr std::uint64_t kEverything = std::uint64_t{1} << 40;

}  // namespace gpumemprof
