#include "capture/ledger/sampler.h"

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <stdexcept>

#include "capture/ledger/card.h"
#include "capture/own_thread.h"

namespace gpumemprof::capture {
namespace {

using std::chrono::steady_clock;
// Querying NVML costs more than the rest of a sample.
constexpr auto kQueryCardEvery = std::chrono::seconds(1);

}  // namespace

struct Sampler::State {
  explicit State(SamplerOptions given)
      : options(std::move(given)), scope(options.slot, options.with_resident) {}

  void run() {
    const std::chrono::nanoseconds interval(options.interval_ns);
    auto next = steady_clock::now();
    std::unique_lock lock(mutex);
    bool is_last = false;
    while (!is_last) {
      // Scheduled by the clock, so that samples do not drift; missed ones are skipped.
      next = std::max(next + interval, steady_clock::now());
      is_last = wakes.wait_until(lock, next, [&] { return is_stopping; });
      lock.unlock();
      take_sample();
      lock.lock();
    }
  }

  void take_sample() {
    const std::optional<ScopeFigures> figures = scope.turn_over();
    if (!figures) return;
    const Sample sample{*figures, query_card()};
    const std::lock_guard lock(mutex);
    samples.push_back(sample);
    if (samples.size() > options.most_samples) {
      samples.pop_front();
      ++dropped;
    }
  }

  std::optional<DeviceSample> query_card() {
    const auto now = steady_clock::now();
    if (options.card_uuid.empty() || (has_queried && now - last_query < kQueryCardEvery))
      return std::nullopt;
    has_queried = true;
    last_query = now;
    const std::vector<DeviceSample> samples_now = cards.sample();
    return samples_now.empty() ? std::nullopt : std::optional(samples_now.front());
  }

  const SamplerOptions options;
  const ::pid_t process = ::getpid();
  Scope scope;  // used by the thread alone while it runs
  Cards cards;
  bool has_queried = false;
  steady_clock::time_point last_query;
  std::mutex mutex;  // guards what follows
  std::condition_variable wakes;
  std::deque<Sample> samples;
  std::uint64_t dropped = 0;
  bool is_stopping = false;
  OwnThread thread;
};

Sampler::Sampler(SamplerOptions options) : state_(std::make_unique<State>(std::move(options))) {
  if (!state_->options.card_uuid.empty()) state_->cards.watch(0, state_->options.card_uuid);
  state_->scope.open();
  const Status started =
      state_->thread.start("gpumemprof-mon", [state = state_.get()] { state->run(); });
  if (!started) throw std::runtime_error(started.error().message);
}

// The thread belongs to the parent, and the lock may be held by one of its threads.
bool Sampler::is_inherited() const { return state_->process != ::getpid(); }

Sampler::~Sampler() {
  if (is_inherited()) {
    const State* left_to_the_parent = state_.release();
    static_cast<void>(left_to_the_parent);
  } else {
    stop();
  }
}

TakenSamples Sampler::take() {
  if (is_inherited()) return {};
  const std::lock_guard lock(state_->mutex);
  TakenSamples taken;
  taken.samples.assign(state_->samples.begin(), state_->samples.end());
  taken.dropped = std::exchange(state_->dropped, 0);
  state_->samples.clear();
  return taken;
}

void Sampler::stop() {
  if (is_inherited()) return;
  {
    const std::lock_guard lock(state_->mutex);
    state_->is_stopping = true;
    state_->wakes.notify_one();
  }
  state_->thread.join();
}

}  // namespace gpumemprof::capture
