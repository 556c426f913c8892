// OwnThread: a thread of the recorder's in the program's process. It gets no signals, which are for
// the program's own threads to handle, and a small stack: programs run near a limit on their
// address space too.
#pragma once

#include <pthread.h>

#include <functional>

#include "base/result.h"

namespace gpumemprof::capture {

class OwnThread {
 public:
  OwnThread() = default;
  OwnThread(const OwnThread&) = delete;
  OwnThread& operator=(const OwnThread&) = delete;
  ~OwnThread() { join(); }

  // Not while one is running. The name has at most 15 characters. Fails if the system cannot create
  // another thread.
  Status start(const char* name, std::function<void()> run);
  [[nodiscard]] bool is_running() const { return is_running_; }
  // Waits for its end; does nothing if none is running.
  void join();

 private:
  pthread_t thread_{};
  bool is_running_ = false;
};

}  // namespace gpumemprof::capture
