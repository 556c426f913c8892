#include "follow/background_look.h"

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "follow/followed_run.h"

namespace gpumemprof {

struct BackgroundLook::Shared {
  std::string path;
  std::function<void()> write_out;
  std::unique_ptr<FollowedRun> run;  // of the thread while it is busy

  std::mutex lock;
  std::condition_variable is_ready;
  bool is_busy = false;
  std::vector<KeptSite> found;

  std::vector<KeptSite> look(const KeptSitesWanted& wanted) {
    // The process is the program's: whatever fails here must not end it.
    try {
      write_out();
      if (run == nullptr) {
        Result<std::unique_ptr<FollowedRun>> opened = FollowedRun::open(path);
        if (!opened) return {};
        run = std::move(opened).value();
      }
      if (!run->read(UINT64_MAX / 2, 0, 0)) return {};
      return run->kept_sites(wanted);
    } catch (const std::exception&) {
      return {};
    }
  }
};

BackgroundLook::BackgroundLook(std::string path, std::function<void()> write_out)
    : shared_(std::make_shared<Shared>()) {
  shared_->path = std::move(path);
  shared_->write_out = std::move(write_out);
}

BackgroundLook::~BackgroundLook() {
  if (is_abandoned_) return;
  std::unique_lock held(shared_->lock);
  shared_->is_ready.wait(held, [&] { return !shared_->is_busy; });
}

bool BackgroundLook::start(const KeptSitesWanted& wanted) {
  if (is_started_ || is_abandoned_) return false;
  shared_->is_busy = true;
  try {
    std::thread([shared = shared_, wanted] {
      std::vector<KeptSite> found = shared->look(wanted);
      const std::scoped_lock held(shared->lock);
      shared->found = std::move(found);
      shared->is_busy = false;
      shared->is_ready.notify_all();
    }).detach();
  } catch (const std::system_error&) {
    shared_->is_busy = false;
    return false;
  }
  is_started_ = true;
  return true;
}

std::optional<std::vector<KeptSite>> BackgroundLook::take(std::chrono::milliseconds most) {
  if (!is_started_ || is_abandoned_) return std::nullopt;
  std::unique_lock held(shared_->lock);
  if (!shared_->is_ready.wait_for(held, most, [&] { return !shared_->is_busy; }))
    return std::nullopt;
  is_started_ = false;
  return std::exchange(shared_->found, {});
}

std::vector<KeptSite> BackgroundLook::look_now(const KeptSitesWanted& wanted) {
  if (is_abandoned_) return {};
  {
    std::unique_lock held(shared_->lock);
    shared_->is_ready.wait(held, [&] { return !shared_->is_busy; });
  }
  is_started_ = false;
  return shared_->look(wanted);
}

}  // namespace gpumemprof
