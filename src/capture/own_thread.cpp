#include "capture/own_thread.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

namespace gpumemprof::capture {
namespace {

// The system's own is 8 MiB. The thread-local variables of the program's libraries are in it too.
constexpr std::size_t kStackBytes = std::size_t{1} << 20;

struct OwnWork {
  const char* name;
  std::function<void()> run;
};

void* do_own_work(void* given) {
  const std::unique_ptr<OwnWork> work(static_cast<OwnWork*>(given));
  ::pthread_setname_np(::pthread_self(), work->name);
  work->run();
  return nullptr;
}

int create_own_thread(pthread_t& thread, OwnWork* work) {
  pthread_attr_t attributes;
  if (::pthread_attr_init(&attributes) != 0)
    return ::pthread_create(&thread, nullptr, do_own_work, work);
  ::pthread_attr_setstacksize(&attributes, kStackBytes);
  int problem = ::pthread_create(&thread, &attributes, do_own_work, work);
  ::pthread_attr_destroy(&attributes);
  // Too small for what the program's libraries want of each stack.
  if (problem == EINVAL) problem = ::pthread_create(&thread, nullptr, do_own_work, work);
  return problem;
}

}  // namespace

Status OwnThread::start(const char* name, std::function<void()> run) {
  auto work = std::make_unique<OwnWork>(OwnWork{name, std::move(run)});
  // A new thread has the signals of the one that creates it: there is no moment at which it could
  // be given one.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const int problem = create_own_thread(thread_, work.get());
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (problem != 0) {
    return Error{ErrorCode::environment,
                 std::string("no thread could be started (") + std::strerror(problem) + ")", "",
                 "nothing is recorded; raise the limit on processes (ulimit -u)"};
  }
  const OwnWork* now_the_threads = work.release();
  static_cast<void>(now_the_threads);
  is_running_ = true;
  return Done{};
}

void OwnThread::join() {
  if (!is_running_) return;
  ::pthread_join(thread_, nullptr);
  is_running_ = false;
}

}  // namespace gpumemprof::capture
