// A signal whose default action ends a process notifies nobody either, and what was not flushed
// would be lost. Where the program has left a signal at its default action, our handler has the
// drain close the recordings, waits for that, and lets the same signal end the process: the thread
// that got it runs nothing of the program in between, and the exit status is the same. A handler
// that the program installs replaces ours.
//
// The handler calls what POSIX allows in one, and takes no lock. The thread that it interrupts may
// hold one that the drain needs, such as the C library's for its heap: then the wait ends after a
// time, and the file stays as it is, which is valid.
#include <poll.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstring>
#include <ctime>
#include <string>
#include <string_view>

#include "capture/capture.h"
#include "capture/hooks/engine.h"

namespace gpumemprof::capture {
namespace {

struct EndingSignal {
  int number;
  const char* name;
};
// Sent by people, batch systems and containers, and what a crash raises.
constexpr std::array<EndingSignal, 9> kEndingSignals{{{SIGTERM, "SIGTERM"},
                                                      {SIGHUP, "SIGHUP"},
                                                      {SIGINT, "SIGINT"},
                                                      {SIGXCPU, "SIGXCPU"},
                                                      {SIGSEGV, "SIGSEGV"},
                                                      {SIGBUS, "SIGBUS"},
                                                      {SIGFPE, "SIGFPE"},
                                                      {SIGILL, "SIGILL"},
                                                      {SIGABRT, "SIGABRT"}}};
constexpr long kLookEveryNs = 1'000'000;
constexpr int kMostLooks = 3000;  // 3 s: less than batch systems and containers wait

std::atomic<int> g_first_signal{0};
// Written before the handler is there: what is printed after a signal's name, and where to.
std::array<char, 1024> g_farewell{};
struct stat g_errors{};

const char* signal_name(int number) {
  for (const EndingSignal& one : kEndingSignals)
    if (one.number == number) return one.name;
  return "a signal";
}

// Only where it cannot block, and where standard error is what it was.
void print_farewell(int number) {
  pollfd errors{STDERR_FILENO, POLLOUT, 0};
  struct stat now{};
  if (g_farewell[0] == '\0' || ::poll(&errors, 1, 0) != 1 || errors.revents != POLLOUT ||
      ::fstat(STDERR_FILENO, &now) != 0 || now.st_dev != g_errors.st_dev ||
      now.st_ino != g_errors.st_ino)
    return;
  std::array<char, 1200> line{};
  std::size_t length = 0;
  for (const char* part : {"gpumemprof: the program was killed by ", signal_name(number),
                           static_cast<const char*>(g_farewell.data())}) {
    const std::size_t bytes = std::min(std::strlen(part), line.size() - length);
    std::memcpy(line.data() + length, part, bytes);
    length += bytes;
  }
  static_cast<void>(!::write(STDERR_FILENO, line.data(), length));
}

// By the default action, as soon as the handler has returned.
void end_by(int number) {
  struct sigaction usual{};
  usual.sa_handler = SIG_DFL;
  ::sigaction(number, &usual, nullptr);
  ::raise(number);
  sigset_t only;
  ::sigemptyset(&only);
  ::sigaddset(&only, number);
  ::pthread_sigmask(SIG_UNBLOCK, &only, nullptr);
}

void close_and_end(int number) {
  int first = 0;
  // The second one ends the process at once, but does not change how it ended: it may be the
  // drain's own, whose work a corrupt heap can end.
  if (!g_first_signal.compare_exchange_strong(first, number)) return end_by(first);
  Engine* engine = Engine::existing();
  if (engine == nullptr || !engine->is_of_this_process() || !engine->is_recording())
    return end_by(number);
  engine->drain().close_soon(signal_name(number));
  const Drain& drain = engine->drain();
  for (int look = 0; look < kMostLooks && drain.closed() == Drain::Closed::not_yet; ++look) {
    const timespec pause{0, kLookEveryNs};
    ::nanosleep(&pause, nullptr);
  }
  if (drain.closed() == Drain::Closed::with_events) print_farewell(number);
  end_by(number);
}

std::atomic<bool> g_watches_signals{false};

// The handler stays, for a recording of the child's own; the sentence is about the parent's.
void forget_farewell() {
  g_farewell[0] = '\0';
  g_first_signal = 0;
}

}  // namespace

void watch_signals(const std::string& farewell) {
  if (g_watches_signals.exchange(true)) return;
  ::pthread_atfork(nullptr, nullptr, forget_farewell);
  if (farewell.size() < g_farewell.size() && ::fstat(STDERR_FILENO, &g_errors) == 0)
    std::ranges::copy(farewell, g_farewell.begin());
  for (const EndingSignal& one : kEndingSignals) {
    struct sigaction before{};
    if (::sigaction(one.number, nullptr, &before) != 0) continue;
    if ((before.sa_flags & SA_SIGINFO) != 0 || before.sa_handler != SIG_DFL) continue;
    struct sigaction ours{};
    ours.sa_handler = close_and_end;
    // On the thread's own stack for signals, if it has one: its stack may be what is exhausted.
    ours.sa_flags = SA_ONSTACK;
    ::sigemptyset(&ours.sa_mask);
    ::sigaction(one.number, &ours, nullptr);
  }
}

}  // namespace gpumemprof::capture
