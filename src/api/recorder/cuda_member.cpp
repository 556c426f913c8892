#include "api/recorder/cuda_member.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <vector>

#include "api/recorder/listed_state.h"
#include "capture/libtorch/driver_cards.h"
#include "capture/libtorch/first_use.h"
#include "capture/libtorch/libtorch.h"
#include "event/alloc_conf.h"

namespace gpumemprof::api {
namespace {

constexpr int kMostAttempts = 3;
constexpr auto kLongestWait = std::chrono::seconds(60);

// One list of torch's at a time, by us. Whoever holds it may wait for torch's locks, so a thread
// that torch calls with its lock held must not wait for it.
std::mutex g_listing;
std::vector<CudaMember*> g_waiting;  // guarded by it

}  // namespace

CudaMember::CudaMember(capture::RecordingNumber number, capture::TorchVersionNumber version)
    : number_(number), version_(version), process_(::getpid()) {}

CudaMember::~CudaMember() {
  if (!tester_.joinable()) return;
  // In a forked child the thread does not exist, and its handle may be that of another one by now.
  if (::getpid() != process_) {
    std::construct_at(&tester_);
  } else {
    tester_.detach();
  }
}

Result<std::shared_ptr<CudaMember>> CudaMember::join(capture::RecordingNumber number,
                                                     capture::TorchVersionNumber version) {
  const std::shared_ptr<CudaMember> member(new CudaMember(number, version));
  const std::lock_guard lock(g_listing);
  const Result<bool> joined = member->try_to_join();
  if (!joined) return joined.error();
  if (joined.value()) return member;
  if (Status waits = capture::wait_for_use(on_first_use); !waits) return waits.error();
  g_waiting.push_back(member.get());
  return member;
}

void CudaMember::on_first_use() {
  const std::unique_lock lock(g_listing, std::try_to_lock);
  if (!lock.owns_lock()) return;  // there will be another sign of use
  const auto is_settled = [](CudaMember* member) {
    try {
      const Result<bool> joined = member->try_to_join();
      if (!joined) member->failure_ = joined.error();
      return !joined || joined.value();
    } catch (const std::exception& bug) {
      member->failure_ = Error{ErrorCode::bug, bug.what(), "", "please report it"};
      return true;
    }
  };
  std::erase_if(g_waiting, is_settled);
  if (g_waiting.empty()) capture::stop_waiting_for_use();
}

Result<bool> CudaMember::try_to_join() {
  for (int attempt = 1;; ++attempt) {
    Result<bool> joined = attempt_to_join();
    // The program may have taken a snapshot at the same moment.
    if (joined.ok() || attempt == kMostAttempts) return joined;
  }
}

Result<bool> CudaMember::attempt_to_join() {
  if (Status attached = capture::attach_cuda(version_); !attached) return attached.error();
  devices_ = capture::cuda_device_count();
  capture::begin_join(number_);
  const Result<std::string> pickled = capture::pickled_snapshot();
  const bool is_initialised = capture::is_cuda_initialised();
  Result<ListedState> state =
      pickled ? listed_state(pickled.value()) : Result<ListedState>(pickled.error());
  const bool is_listed = state.ok();
  // Also after a failure: it ends the attempt.
  const Status finished = capture::finish_join(
      number_, devices_,
      is_listed ? state.value().segments : std::vector<capture::ListedSegment>());
  if (!is_listed) return state.error();
  if (!is_initialised) return false;
  if (!finished) return finished.error();
  set_settings(state.value().settings);
  describe_devices();
  start_self_test();
  return true;
}

void CudaMember::set_settings(const std::string& text) {
  const Result<AllocConf> conf = parse_alloc_conf(text, {version_.major, version_.minor});
  if (conf) capture::set_settings(number_, conf.value().settings);
  capture::add_facts(number_, {{"settings", text}});
}

void CudaMember::describe_devices() {
  capture::Facts facts;
  for (const capture::DriverCard& card : capture::driver_cards(devices_)) {
    const std::string key = "device " + std::to_string(card.device);
    facts.emplace_back(key, card.name);
    facts.emplace_back(key + " total_bytes", std::to_string(card.total_bytes));
    if (!card.uuid.empty()) capture::watch_card(card.device, card.uuid);
  }
  capture::add_facts(number_, facts);
}

void CudaMember::start_self_test() {
  try {
    tester_ = std::thread([this] { test_itself(); });
  } catch (const std::system_error&) {  // there may be too many: the recording goes on untested
    capture::end_self_test(number_, true);
    capture::add_facts(number_, {{"self_test", "not done"}});
  }
}

void CudaMember::test_itself() {
  bool has_allocated = false;
  bool goes_on = true;
  while (!has_allocated && goes_on) {
    has_allocated = capture::wait_for_allocation(number_, kLongestWait);
    const std::lock_guard lock(g_listing);
    goes_on = !is_over_ && capture::is_recording();
  }
  const std::lock_guard lock(g_listing);
  if (!has_allocated || is_over_) {  // a program that ends at once does not wait for the test
    capture::add_facts(number_, {{"self_test", "not done"}});
    return;
  }
  const std::optional<std::string> found = [&]() -> std::optional<std::string> {
    try {
      return contradiction();
    } catch (const std::exception& failure) {
      return failure.what();
    }
  }();
  const bool has_passed = !found || found->empty();
  capture::end_self_test(number_, has_passed);
  std::string result = "not done";
  if (found) result = found->empty() ? "passed" : "failed: " + *found;
  capture::add_facts(number_, {{"self_test", result}});
  if (!has_passed) {
    failure_ = Error{ErrorCode::environment,
                     "what was recorded contradicts torch's own list of blocks: " + *found, "",
                     "please report it with the version of libtorch"};
  }
}

std::optional<std::string> CudaMember::contradiction() {
  for (int attempt = 1;; ++attempt) {
    capture::begin_self_test(number_);
    const Result<std::string> pickled = capture::pickled_snapshot();
    if (!pickled) return pickled.error().sentence();
    const Result<ListedState> state = listed_state(pickled.value());
    if (!state) return state.error().sentence();
    const Result<capture::SelfTestResult> result =
        capture::finish_self_test(number_, devices_, state.value().segments);
    if (result) {
      if (!result.value().is_done) return std::nullopt;
      return result.value().contradiction.value_or("");
    }
    // The program may have taken a snapshot at the same moment.
    if (attempt == kMostAttempts) return result.error().sentence();
  }
}

void CudaMember::stop_waiting() {
  if (::getpid() != process_) return;
  const std::lock_guard lock(g_listing);
  is_over_ = true;
  std::erase(g_waiting, this);
  if (g_waiting.empty()) capture::stop_waiting_for_use();
}

std::optional<Error> CudaMember::leave() {
  if (::getpid() != process_) return std::nullopt;
  stop_waiting();
  if (tester_.joinable()) tester_.join();
  return failure_;
}

}  // namespace gpumemprof::api
