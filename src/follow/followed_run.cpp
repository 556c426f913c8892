#include "follow/followed_run.h"

#include <algorithm>
#include <functional>
#include <iterator>

#include "follow/live_notices.h"

namespace gpumemprof {
namespace {

// A recorder that has something to say about its events says so within this time.
constexpr auto kLongestFlush = std::chrono::milliseconds(600);
constexpr std::size_t kMostWaiting = std::size_t{1} << 21;
// As MemoryTracker writes them.
constexpr std::string_view kAlert = "alert: ";
constexpr std::size_t kMostAlerts = 3;

}  // namespace

Result<std::unique_ptr<FollowedRun>> FollowedRun::open(const std::string& path) {
  std::unique_ptr<FollowedRun> run(new FollowedRun());
  run->path_ = path;
  Result<std::unique_ptr<TraceFollower>> follower = TraceFollower::open(path, run->resolving_);
  if (!follower) return follower.error();
  run->follower_ = std::move(follower).value();
  return run;
}

FollowedDevice& FollowedRun::device(DeviceIndex index) {
  std::unique_ptr<FollowedDevice>& found = devices_[index];
  if (found == nullptr) found = std::make_unique<FollowedDevice>(index, store_);
  return *found;
}

void FollowedRun::add_annotation(const Annotation& annotation) {
  ends_flush_ = true;
  const std::string_view name = store_.text(annotation.name);
  if (annotation.stage != Annotation::Stage::start || !name.starts_with(kAlert)) return;
  alerts_.emplace_front(name.substr(kAlert.size()));
  if (alerts_.size() > kMostAlerts) alerts_.pop_back();
}

void FollowedRun::add_events(DeviceIndex index, EventColumns&& events) {
  if (ends_flush_ || waiting_events_ > kMostWaiting) play_waiting();
  waiting_events_ += events.size();
  waiting_.emplace_back(index, std::move(events));
}

void FollowedRun::play_waiting() {
  for (const auto& [index, events] : waiting_) device(index).add(events);
  waiting_.clear();
  waiting_events_ = 0;
  ends_flush_ = false;
}

std::vector<KeptSite> FollowedRun::kept_sites(const KeptSitesWanted& wanted) {
  play_waiting();
  std::vector<KeptSite> found;
  for (const auto& [index, followed] : devices_)
    std::ranges::move(followed->kept_sites(wanted), std::back_inserter(found));
  std::ranges::stable_sort(found, std::ranges::greater(), &KeptSite::bytes);
  if (found.size() > wanted.most_sites) found.resize(wanted.most_sites);
  return found;
}

Result<LiveReport> FollowedRun::read(std::uint64_t most_bytes, std::size_t most_sites,
                                     std::size_t most_steps) {
  const std::uint64_t bytes_before = follower_->bytes_read();
  const Result<TraceFollower::State> state = follower_->read_more(most_bytes);
  if (!state) {
    play_waiting();
    return state.error();
  }
  is_behind_ = state.value() == TraceFollower::State::behind;
  const auto now = std::chrono::steady_clock::now();
  if (follower_->bytes_read() != bytes_before) last_growth_ = now;
  if (ends_flush_ || follower_->ending() || now - last_growth_ > kLongestFlush) play_waiting();
  return report(most_sites, most_steps);
}

LiveReport FollowedRun::report(std::size_t most_sites, std::size_t most_steps) {
  LiveReport report;
  report.path = path_;
  report.file_bytes = follower_->bytes_read();
  report.is_behind = is_behind_;
  report.ending = follower_->ending();
  const ProcessFacts& process = store_.facts().process();
  report.command = process.command;
  report.host = process.host;
  report.pid = process.pid;
  report.rank = process.rank;
  report.world_size = process.world_size;
  for (const auto& [index, followed] : devices_) {
    if (followed->has_memory()) report.devices.push_back(followed->report(most_sites, most_steps));
  }
  report.alerts.assign(alerts_.begin(), alerts_.end());
  report.notices = find_notices(report);
  return report;
}

}  // namespace gpumemprof
