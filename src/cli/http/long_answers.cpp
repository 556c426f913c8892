#include "cli/http/long_answers.h"

#include <exception>

namespace gpumemprof::cli {
namespace {

// A page that has not come back for its answer does not come any more.
constexpr auto kKept = std::chrono::minutes(2);

}  // namespace

LongAnswers::~LongAnswers() {
  std::map<std::string, std::shared_ptr<Job>> ending;
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& [question, job] : jobs_) {
      if (job != nullptr) job->work.give_up();
    }
    ending = std::move(jobs_);
    jobs_.clear();
  }
  // Joins their threads, which need the lock.
  ending.clear();
}

void LongAnswers::compute(Job& job, const Make& make) {
  std::optional<Result<std::string>> made;
  try {
    made = make(job.work);
  } catch (const std::exception& bug) {
    made = Error{ErrorCode::bug, std::string("internal error: ") + bug.what(), "", ""};
  }
  const std::scoped_lock lock(mutex_);
  job.answer = std::move(made);
  changed_.notify_all();
}

void LongAnswers::watch(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    for (const auto& [question, job] : jobs_) {
      if (job != nullptr && !job->answer && job->waiting == 0 &&
          Clock::now() - job->asked > patience_)
        job->work.give_up();
    }
    changed_.wait_for(lock, stop, patience_ / 4, [] { return false; });
  }
}

// Their threads have ended, or end without the lock.
void LongAnswers::forget_old() {
  std::erase_if(jobs_, [](const auto& known) {
    if (known.second == nullptr) return true;
    const Job& job = *known.second;
    return job.answer && job.waiting == 0 &&
           (job.work.is_given_up() || Clock::now() - job.asked > kKept);
  });
}

LongAnswers::Reply LongAnswers::ask(const std::string& question, const Make& make,
                                    std::chrono::milliseconds most) {
  std::unique_lock lock(mutex_);
  forget_old();
  if (!watching_.joinable())
    watching_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
  std::shared_ptr<Job> job = jobs_[question];
  const auto wait_for = [&](Job& awaited) {
    ++awaited.waiting;
    changed_.wait_for(lock, most, [&] { return awaited.answer.has_value(); });
    --awaited.waiting;
    awaited.asked = Clock::now();
    return awaited.answer.has_value();
  };
  // One that was given up is on its way out: then it is computed again.
  if (job != nullptr && job->work.is_given_up()) {
    if (!wait_for(*job)) return {std::nullopt, job->work.progress()};
    if (jobs_[question] == job) jobs_[question] = nullptr;
    job = jobs_[question];
  }
  if (job == nullptr) {
    job = jobs_[question] = std::make_shared<Job>();
    job->thread = std::jthread([this, made = job.get(), make] { compute(*made, make); });
  }
  const bool is_ready = wait_for(*job);
  return {is_ready ? job->answer : std::nullopt, job->work.progress()};
}

}  // namespace gpumemprof::cli
