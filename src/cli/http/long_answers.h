// LongAnswers: answers that take longer than a page should wait for one response. Each is computed
// in a thread of its own; whoever asks gets it when it is ready, or what is known so far after a
// moment, and asks again. One that nobody asks for any more is given up.
//
// Safe to use from any number of threads.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "base/result.h"
#include "session/advice/long_work.h"

namespace gpumemprof::cli {

class LongAnswers {
 public:
  using Clock = std::chrono::steady_clock;
  using Make = std::function<Result<std::string>(LongWork&)>;

  // A page asks again at once; one that does not within `patience` has gone, or shows something
  // else.
  explicit LongAnswers(std::chrono::milliseconds patience = std::chrono::seconds(4))
      : patience_(patience) {}
  LongAnswers(const LongAnswers&) = delete;
  LongAnswers& operator=(const LongAnswers&) = delete;
  ~LongAnswers();

  struct Reply {
    std::optional<Result<std::string>> answer;  // none: not yet
    LongWork::Progress progress;
  };
  // `question`: two that ask the same share one answer. Waits no longer than `most`.
  Reply ask(const std::string& question, const Make& make, std::chrono::milliseconds most);

 private:
  struct Job {
    LongWork work;
    std::optional<Result<std::string>> answer;
    std::size_t waiting = 0;
    Clock::time_point asked;
    std::jthread thread;
  };
  void compute(Job& job, const Make& make);
  void watch(const std::stop_token& stop);
  void forget_old();

  std::chrono::milliseconds patience_;
  std::mutex mutex_;  // guards all that follows
  std::condition_variable_any changed_;
  std::map<std::string, std::shared_ptr<Job>> jobs_;
  std::jthread watching_;  // last: it ends before what it looks at is destroyed
};

}  // namespace gpumemprof::cli
