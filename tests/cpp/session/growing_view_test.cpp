// A view of a recording that grows shows all of it once it has ended, and old answers until then.
#include "session/growing_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace gpumemprof {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t kNever = 99;

std::string bytes_of_recording() {
  std::ifstream file(GPUMEMPROF_TEST_DATA "/traces/cpu_training.gmp", std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void write_part(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary | std::ios::app)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

std::uint64_t events_of(const View& view) { return view.whole({0, 0})->record().events.size(); }

// As long as it takes: a busy machine may be slow.
template <typename Condition>
bool becomes_true(const Condition& condition) {
  for (int looks = 0; looks < 6000; ++looks) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

TEST(GrowingView, extends_until_the_recording_ends) {
  const std::string bytes = bytes_of_recording();
  const std::string path =
      ::testing::TempDir() + "/growing_view_" + std::to_string(::getpid()) + ".gmp";
  std::filesystem::remove(path);
  write_part(path, std::string_view(bytes).substr(0, bytes.size() * 2 / 3));
  GrowingView growing({Recording::open(path).value()});
  const std::uint64_t first_events = events_of(*growing.view(0));
  EXPECT_THAT(growing.state_json(), HasSubstr(R"("state":"recording")"));
  growing.start();
  write_part(path, std::string_view(bytes).substr(bytes.size() * 2 / 3));
  ASSERT_TRUE(becomes_true(
      [&] { return growing.state_json().find(R"("state":"ended")") != std::string::npos; }));
  const auto whole = Recording::open(GPUMEMPROF_TEST_DATA "/traces/cpu_training.gmp").value();
  EXPECT_EQ(events_of(*growing.view(kNever)), whole->store().devices()[0]->events.size());
  EXPECT_GT(events_of(*growing.view(std::nullopt)), first_events);
  std::filesystem::remove(path);
}

TEST(GrowingView, answers_from_the_generation_that_is_named) {
  const std::string bytes = bytes_of_recording();
  const std::string path =
      ::testing::TempDir() + "/growing_view_generations_" + std::to_string(::getpid()) + ".gmp";
  std::filesystem::remove(path);
  write_part(path, std::string_view(bytes).substr(0, bytes.size() / 2));
  GrowingView growing({Recording::open(path).value()});
  const std::uint64_t first_events = events_of(*growing.view(0));
  growing.start();
  // What is written now is read as one more generation: the file is not touched again.
  write_part(path, std::string_view(bytes).substr(bytes.size() / 2));
  ASSERT_TRUE(becomes_true(
      [&] { return growing.state_json().find(R"("generation":1)") != std::string::npos; }));
  EXPECT_EQ(events_of(*growing.view(0)), first_events);
  EXPECT_GT(events_of(*growing.view(1)), first_events);
  std::filesystem::remove(path);
}

TEST(GrowingView, of_a_file_that_does_not_grow_has_ended) {
  const GrowingView view(
      {Recording::open(GPUMEMPROF_TEST_DATA "/snapshots/oom_fragmented.pickle.gz").value()});
  EXPECT_THAT(view.state_json(), HasSubstr(R"("generation":0)"));
  EXPECT_THAT(view.state_json(), HasSubstr(R"("state":"ended")"));
}

}  // namespace
}  // namespace gpumemprof
