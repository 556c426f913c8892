#include "follow/followed_run.h"

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <utility>

#include "event/rules/plausible.h"
#include "follow/live_notices.h"

namespace gpumemprof {
namespace {

// As MemoryTracker writes them.
constexpr std::string_view kAlert = "alert: ";
constexpr std::size_t kMostAlerts = 3;

// The name of an annotation that has another in every step; no function or file has such a name.
bool is_name_of_one_step(std::string_view text) {
  constexpr std::array<std::string_view, 2> kSteps = {"gpumemprof.step#", "ProfilerStep#"};
  return std::ranges::any_of(kSteps, [&](std::string_view start) {
    return text.starts_with(start) && std::ranges::all_of(text.substr(start.size()), [](char one) {
             return one >= '0' && one <= '9';
           });
  });
}

}  // namespace

Result<std::unique_ptr<FollowedRun>> FollowedRun::open(const std::string& path,
                                                       std::uint64_t allowed_bytes) {
  std::unique_ptr<FollowedRun> run(new FollowedRun());
  run->path_ = path;
  Result<std::unique_ptr<TraceFollower>> follower =
      TraceFollower::open(path, run->resolving_, allowed_bytes);
  if (!follower) return follower.error();
  run->follower_ = std::move(follower).value();
  return run;
}

FollowedDevice& FollowedRun::device(DeviceIndex index) {
  std::unique_ptr<FollowedDevice>& found = devices_[index];
  if (found == nullptr) found = std::make_unique<FollowedDevice>(index, store_, labels_);
  return *found;
}

StringId FollowedRun::add_string(std::string_view text) {
  return store_.add_string(is_name_of_one_step(text) ? std::string_view() : text);
}

void FollowedRun::add_annotation(const Annotation& annotation) {
  ends_flush_ = true;
  const std::string_view name = store_.text(annotation.name);
  if (annotation.stage != Annotation::Stage::start || !name.starts_with(kAlert)) return;
  alerts_.emplace_front(name.substr(kAlert.size()));
  if (alerts_.size() > kMostAlerts) alerts_.pop_back();
}

void FollowedRun::add_events(DeviceIndex index, EventColumns&& events) {
  if (std::exchange(ends_flush_, false)) {
    for (const auto& [other, followed] : devices_) followed->settle();
  }
  make_plausible(events);
  device(index).add(events);
}

std::vector<KeptSite> FollowedRun::kept_sites(const KeptSitesWanted& wanted) {
  std::vector<KeptSite> found;
  for (const auto& [index, followed] : devices_)
    std::ranges::move(followed->kept_sites(wanted), std::back_inserter(found));
  std::ranges::stable_sort(found, std::ranges::greater(), &KeptSite::bytes);
  if (found.size() > wanted.most_sites) found.resize(wanted.most_sites);
  return found;
}

Result<LiveReport> FollowedRun::read(std::uint64_t most_bytes, std::size_t most_sites,
                                     std::size_t most_steps) {
  const Result<TraceFollower::State> state = follower_->read_more(most_bytes);
  if (!state) return state.error();
  is_behind_ = state.value() == TraceFollower::State::behind;
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
  report.job = process.job;
  report.gpumemprof = process.gpumemprof;
  report.torch = process.torch;
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
