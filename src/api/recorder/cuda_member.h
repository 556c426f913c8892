// CudaMember: how one recording takes part in torch's CUDA allocator.
//
// It joins at once if the program has initialised CUDA, and otherwise when the program first uses
// the memory of a device, before that memory exists. Once the program has allocated, a thread
// compares the recording with torch's own list of blocks; a contradiction ends the recording.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <thread>

#include "base/result.h"
#include "capture/capture.h"

namespace gpumemprof::api {

class CudaMember {
 public:
  // Fails if torch's allocator cannot be followed: then nothing is recorded.
  static Result<std::shared_ptr<CudaMember>> join(capture::RecordingNumber number,
                                                  capture::TorchVersionNumber version);
  // Only once leave() was called.
  ~CudaMember();
  CudaMember(const CudaMember&) = delete;
  CudaMember& operator=(const CudaMember&) = delete;

  // The recording is about to end, or has ended: it does not join any more.
  void stop_waiting();
  // The recording has ended. Returns why nothing, or not all, was recorded; none: everything was.
  std::optional<Error> leave();

 private:
  CudaMember(capture::RecordingNumber number, capture::TorchVersionNumber version);

  // With the mutex of all members held; these call torch. False: CUDA is not initialised yet.
  Result<bool> try_to_join();
  Result<bool> attempt_to_join();
  void describe_devices();
  void start_self_test();
  void test_itself();
  // Empty: no contradiction; none: could not be tested.
  std::optional<std::string> contradiction();
  void set_settings(const std::string& text);

  static void on_first_use();

  const capture::RecordingNumber number_;
  const capture::TorchVersionNumber version_;
  const ::pid_t process_;
  int devices_ = 0;
  bool is_over_ = false;
  std::optional<Error> failure_;
  std::thread tester_;
};

}  // namespace gpumemprof::api
