// Recording CUDA memory without Python, against stand-ins for libtorch's libraries.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gpumemprof/reader.h"
#include "gpumemprof/recorder.h"

namespace {

using testing::HasSubstr;

constexpr std::uint64_t kMiB = 1 << 20;

void* loaded_library(const char* path) {
  void* library = ::dlopen(path, RTLD_LAZY | RTLD_GLOBAL);
  EXPECT_NE(library, nullptr) << ::dlerror();
  return library;
}

// Each test has a process of its own: what is attached to torch stays attached.
class CudaRecorder : public testing::Test {
 protected:
  void SetUp() override {
    loaded_library(FAKE_TORCH_FOLDER "/libc10.so");
    void* c10_cuda = loaded_library(FAKE_LIBTORCH_FOLDER "/libc10_cuda.so");
    void* torch_cpu = loaded_library(FAKE_LIBTORCH_FOLDER "/libtorch_cpu.so");
    loaded_library(FAKE_LIBTORCH_FOLDER "/libtorch_cuda.so");
    const auto find = [&](const char* name) { return ::dlsym(c10_cuda, name); };
    initialise = reinterpret_cast<void (*)(bool)>(find("fake_initialise"));
    map = reinterpret_cast<void (*)(bool)>(find("fake_map"));
    lie = reinterpret_cast<void (*)(bool)>(find("fake_lie"));
    allocate = reinterpret_cast<std::uint64_t (*)(std::uint64_t)>(find("fake_allocate"));
    release = reinterpret_cast<void (*)(std::uint64_t)>(find("fake_free"));
    refuse = reinterpret_cast<void (*)(bool)>(find("fake_refuse"));
    minor = static_cast<std::uint64_t*>(::dlsym(torch_cpu, "fake_minor"));
    is_full = static_cast<bool*>(find("fake_is_full"));
  }
  void TearDown() override { std::filesystem::remove(path); }

  gpumemprof::Device recorded_device() {
    recording = gpumemprof::Recording::open(path);
    EXPECT_TRUE(recording) << recording.error().sentence;
    EXPECT_EQ(recording->devices().size(), 1U);
    return recording->devices()[0];
  }

  const std::string path = testing::TempDir() + "cuda_" + std::to_string(::getpid()) + ".gmp";
  gpumemprof::Result<gpumemprof::Recording> recording{gpumemprof::Error()};
  void (*initialise)(bool) = nullptr;
  void (*map)(bool) = nullptr;
  void (*lie)(bool) = nullptr;
  std::uint64_t (*allocate)(std::uint64_t) = nullptr;
  void (*release)(std::uint64_t) = nullptr;
  void (*refuse)(bool) = nullptr;
  std::uint64_t* minor = nullptr;
  bool* is_full = nullptr;
};

TEST_F(CudaRecorder, RecordsFromTheFirstAllocationThoughCudaWasNotInitialised) {
  gpumemprof::Recorder recorder(path);
  ASSERT_TRUE(recorder.ok()) << recorder.error().sentence;
  const std::uint64_t first = allocate(20 * kMiB);
  const std::uint64_t second = allocate(30 * kMiB);
  release(first);
  const auto summary = recorder.stop();
  ASSERT_TRUE(summary) << summary.error().sentence;
  EXPECT_EQ(summary->events, 7U);
  EXPECT_EQ(summary->lost_events, 0U);
  const gpumemprof::Device device = recorded_device();
  EXPECT_EQ(device.name(), "cuda:0");
  EXPECT_EQ(device.peak().allocated_bytes, 50 * kMiB);
  std::size_t allocations = 0;
  for (const gpumemprof::Allocation& allocation : device.allocations()) {
    EXPECT_NE(allocation.stack, GPUMEMPROF_NONE);
    ++allocations;
  }
  EXPECT_EQ(allocations, 2U);
  release(second);
}

TEST_F(CudaRecorder, ListsTheFirstBlockWhereSegmentsAreMapped) {
  map(true);
  gpumemprof::Recorder recorder(path);
  ASSERT_TRUE(recorder.ok()) << recorder.error().sentence;
  allocate(20 * kMiB);
  allocate(30 * kMiB);
  ASSERT_TRUE(recorder.stop());
  EXPECT_EQ(recorded_device().peak().allocated_bytes, 50 * kMiB);
}

TEST_F(CudaRecorder, ListsWhatExistsWhenItStartsLate) {
  const std::uint64_t before = allocate(40 * kMiB);
  gpumemprof::Recorder recorder(path);
  ASSERT_TRUE(recorder.ok()) << recorder.error().sentence;
  allocate(20 * kMiB);
  release(before);
  ASSERT_TRUE(recorder.stop());
  const gpumemprof::Device device = recorded_device();
  EXPECT_EQ(device.peak().allocated_bytes, 60 * kMiB);
}

TEST_F(CudaRecorder, ARecordingAfterAnotherBeginsWithWhatIsLive) {
  {
    gpumemprof::Recorder first(path);
    allocate(20 * kMiB);
  }
  gpumemprof::RecordOptions options;
  options.overwrites = true;
  gpumemprof::Recorder second(path, options);
  allocate(12 * kMiB);
  const auto summary = second.stop();
  ASSERT_TRUE(summary);
  EXPECT_EQ(summary->events, 2U);
  EXPECT_EQ(recorded_device().peak().allocated_bytes, 32 * kMiB);
}

TEST_F(CudaRecorder, TwoThatWaitJoinTogether) {
  const std::string other = path + ".other";
  gpumemprof::Recorder first(path);
  gpumemprof::Recorder second(other);
  allocate(20 * kMiB);
  ASSERT_TRUE(first.stop());
  allocate(10 * kMiB);
  ASSERT_TRUE(second.stop());
  EXPECT_EQ(recorded_device().peak().allocated_bytes, 20 * kMiB);
  const auto read = gpumemprof::Recording::open(other);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->devices()[0].peak().allocated_bytes, 30 * kMiB);
  std::filesystem::remove(other);
}

TEST_F(CudaRecorder, OneThatEndsBeforeCudaIsUsedRecordsNothing) {
  {
    gpumemprof::Recorder recorder(path);
    ASSERT_TRUE(recorder.ok());
    const auto summary = recorder.stop();
    ASSERT_TRUE(summary) << summary.error().sentence;
    EXPECT_EQ(summary->events, 0U);
  }
  allocate(20 * kMiB);
}

TEST_F(CudaRecorder, LabelsThatMoveNameWhatIsThereThen) {
  gpumemprof::Recorder recorder(path);
  ASSERT_TRUE(recorder.ok()) << recorder.error().sentence;
  const std::uint64_t first = allocate(20 * kMiB);
  const gpumemprof_label label = {GPUMEMPROF_LABEL_GRADIENT, 0, first, "layer.grad"};
  const std::uint32_t set = gpumemprof_define_labels(&label, 1, nullptr);
  gpumemprof_apply_labels(set);
  const std::uint64_t second = allocate(30 * kMiB);
  release(first);
  const std::uint32_t moved = gpumemprof_move_labels(set, &second, 1);
  EXPECT_NE(moved, set);
  gpumemprof_apply_labels(moved);
  const std::uint64_t others[] = {allocate(40 * kMiB), allocate(50 * kMiB)};
  gpumemprof_apply_labels(gpumemprof_move_labels(moved, others, 2));  // it has one label
  gpumemprof_apply_labels(gpumemprof_move_labels(moved, nullptr, 1));
  ASSERT_TRUE(recorder.stop());
  std::vector<std::string> names;
  for (const gpumemprof::Allocation& allocation : recorded_device().allocations())
    names.emplace_back(allocation.name);
  EXPECT_THAT(names, testing::ElementsAre("layer.grad", "layer.grad", "", ""));
}

TEST_F(CudaRecorder, SaysInTheWordsOfTheInterfaceWhichStepsThereAre) {
  for (const auto& [steps, hint] :
       {std::pair<int, std::string>{0, "open it as a whole"}, {1, "ask for steps 1 to 1"}}) {
    gpumemprof::RecordOptions options;
    options.overwrites = true;
    gpumemprof::Recorder recorder(path, options);
    for (int step = 0; step < steps; ++step) gpumemprof::step();
    release(allocate(20 * kMiB));
    ASSERT_TRUE(recorder.stop());
    const auto part = gpumemprof::Recording::open_steps(path, 7, 9);
    ASSERT_FALSE(part);
    EXPECT_EQ(part.error().hint, hint);
  }
}

TEST_F(CudaRecorder, RecordsThatADeviceWasFull) {
  gpumemprof::Recorder recorder(path);
  allocate(20 * kMiB);
  *is_full = true;
  EXPECT_EQ(allocate(200 * kMiB), 0U);
  *is_full = false;
  ASSERT_TRUE(recorder.stop());
  static_cast<void>(recorded_device());
  const auto report = recording->report_json();
  ASSERT_TRUE(report);
  EXPECT_THAT(*report, HasSubstr("\"ooms\": 1"));
}

TEST_F(CudaRecorder, SaysThatItsEventsAddUpToWhatTorchLists) {
  gpumemprof::Recorder recorder(path);
  allocate(20 * kMiB);
  // The test is made on another thread, soon after the first allocation.
  const auto latest = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  bool has_passed = false;
  while (!has_passed && std::chrono::steady_clock::now() < latest) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    const auto read = gpumemprof::Recording::open(path);
    if (!read) continue;
    const auto report = read->report_json();
    has_passed = report && report->find("\"self_test\": \"passed\"") != std::string::npos;
  }
  EXPECT_TRUE(has_passed);
  ASSERT_TRUE(recorder.stop());
}

TEST_F(CudaRecorder, EndsWhenTorchListsSomethingElse) {
  gpumemprof::Recorder recorder(path);
  lie(true);
  allocate(20 * kMiB);
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  const auto summary = recorder.stop();
  ASSERT_FALSE(summary);
  EXPECT_THAT(summary.error().sentence, HasSubstr("contradicts torch's own list"));
}

TEST_F(CudaRecorder, RecordsCpuTensorsOnlyWhereAsked) {
  gpumemprof::RecordOptions options;
  options.memory = gpumemprof::Memory::cpu;
  const gpumemprof::Recorder recorder(path, options);
  allocate(20 * kMiB);
  if (recorder.ok()) return;
  EXPECT_THAT(recorder.error().sentence, testing::Not(HasSubstr("CUDA")));
}

TEST_F(CudaRecorder, AForkedChildLeavesTheRecordingAlone) {
  gpumemprof::Recorder recorder(path);
  allocate(20 * kMiB);
  const pid_t child = ::fork();
  if (child == 0) {
    static_cast<void>(recorder.stop());
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  allocate(10 * kMiB);
  ASSERT_TRUE(recorder.stop());
  EXPECT_EQ(recorded_device().peak().allocated_bytes, 30 * kMiB);
}

TEST_F(CudaRecorder, AForkedChildThatRecordsItselfEndsOnlyItsOwnRecording) {
  auto recorder = std::make_unique<gpumemprof::Recorder>(path);
  allocate(20 * kMiB);
  const std::string own_path = path + ".child";
  const pid_t child = ::fork();
  if (child == 0) {
    auto own = std::make_unique<gpumemprof::Recorder>(own_path);
    recorder.reset();  // the parent's
    allocate(40 * kMiB);
    const auto summary = own->stop();
    ::_exit(summary && summary->events > 0 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  const auto own = gpumemprof::Recording::open(own_path);
  std::filesystem::remove(own_path);
  ASSERT_TRUE(own) << own.error().sentence;
  ASSERT_EQ(own->devices().size(), 1U);
  EXPECT_EQ(own->devices()[0].peak().allocated_bytes, 60 * kMiB);
  ASSERT_TRUE(recorder->stop());
  EXPECT_EQ(recorded_device().peak().allocated_bytes, 20 * kMiB);
}

TEST_F(CudaRecorder, RefusesATorchWhoseTrackerIsElsewhere) {
  *minor = 12;
  const gpumemprof::Recorder recorder(path);
  ASSERT_FALSE(recorder.ok());
  EXPECT_THAT(recorder.error().sentence, HasSubstr("vtable slot 44; in this version it should be"));
  EXPECT_THAT(recorder.error().sentence, testing::Not(HasSubstr("\n")));
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_NE(allocate(20 * kMiB), 0U);
}

TEST_F(CudaRecorder, RefusesAnotherAllocator) {
  refuse(true);
  const gpumemprof::Recorder recorder(path);
  ASSERT_FALSE(recorder.ok());
  EXPECT_THAT(recorder.error().sentence, HasSubstr("the allocator in use is not torch's own"));
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_NE(allocate(20 * kMiB), 0U);
}

TEST_F(CudaRecorder, ClosesTheFileOfAProgramThatExits) {
  for (const bool is_at_once : {false, true}) {
    const pid_t child = ::fork();
    if (child == 0) {
      gpumemprof::RecordOptions options;
      options.overwrites = true;
      const gpumemprof::Recorder recorder(path, options);
      allocate(20 * kMiB);
      if (is_at_once) ::_exit(7);
      std::exit(7);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(WEXITSTATUS(status), 7);
    EXPECT_EQ(recorded_device().peak().allocated_bytes, 20 * kMiB);
    const auto report = recording->report_json();
    ASSERT_TRUE(report);
    EXPECT_THAT(*report, HasSubstr(is_at_once ? "\"ended\": \"_exit 7\"" : "\"ended\": \"exit\""));
  }
}

TEST_F(CudaRecorder, ClosesTheFileOfAProgramThatASignalEnds) {
  const pid_t child = ::fork();
  if (child == 0) {
    const gpumemprof::Recorder recorder(path);
    allocate(20 * kMiB);
    ::raise(SIGTERM);
    ::_exit(7);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGTERM);
  EXPECT_EQ(recorded_device().peak().allocated_bytes, 20 * kMiB);
  const auto report = recording->report_json();
  ASSERT_TRUE(report);
  EXPECT_THAT(*report, HasSubstr("\"ended\": \"signal SIGTERM\""));
}

TEST(CudaRecorderWithoutTorch, IsRefusedWithASentence) {
  gpumemprof::RecordOptions options;
  options.memory = gpumemprof::Memory::cuda;
  const gpumemprof::Recorder recorder(testing::TempDir() + "none.gmp", options);
  ASSERT_FALSE(recorder.ok());
  EXPECT_THAT(recorder.error().sentence, HasSubstr("no CUDA device"));
  EXPECT_FALSE(std::filesystem::exists(testing::TempDir() + "none.gmp"));
}

}  // namespace
