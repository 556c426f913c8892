// When the system cannot create another thread, recording is refused with one sentence.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>

#include "capture/capture.h"

namespace {

std::atomic<bool> g_has_threads{true};

}  // namespace

// Replaces the C library's own, for the whole test program.
extern "C" [[gnu::visibility("default")]] int pthread_create(pthread_t* thread,
                                                             const pthread_attr_t* attributes,
                                                             void* (*run)(void*), void* argument) {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto kReal = reinterpret_cast<Create>(::dlsym(RTLD_NEXT, "pthread_create"));
  return g_has_threads ? kReal(thread, attributes, run, argument) : EAGAIN;
}

namespace gpumemprof::capture {
namespace {

TEST(WithoutAThread, recording_is_refused_and_possible_again_later) {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("no-thread-" + std::to_string(::getpid()) + ".gmp");
  StartOptions options;
  options.path = path;
  g_has_threads = false;
  const Result<RecordingNumber> refused = start(options);
  g_has_threads = true;
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::environment);
  EXPECT_NE(refused.error().message.find("no thread could be started"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(path)) << "an empty file was left behind";
  EXPECT_FALSE(is_recording());
  const Result<RecordingNumber> number = start(options);
  ASSERT_TRUE(number);
  EXPECT_TRUE(stop(number.value(), "stop").problem.empty());
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace gpumemprof::capture
