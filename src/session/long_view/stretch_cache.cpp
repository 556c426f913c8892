#include "session/long_view/stretch_cache.h"

#include <algorithm>

namespace gpumemprof {

Result<StretchPtr> StretchCache::get(const Key& key,
                                     const std::function<Result<StretchPtr>()>& open) {
  std::unique_lock lock(mutex_);
  while (true) {
    const auto found = std::ranges::find(kept_, key, &std::pair<Key, StretchPtr>::first);
    if (found != kept_.end()) {
      kept_.splice(kept_.begin(), kept_, found);
      return kept_.front().second;
    }
    if (!opening_.contains(key)) break;
    opened_.wait(lock);
  }
  opening_.insert(key);
  lock.unlock();
  Result<StretchPtr> stretch = open();
  lock.lock();
  opening_.erase(key);
  if (stretch) keep(key, stretch.value());
  opened_.notify_all();
  return stretch;
}

void StretchCache::keep(const Key& key, const StretchPtr& stretch) {
  kept_.emplace_front(key, stretch);
  bytes_ += stretch->size_bytes();
  while (bytes_ > most_bytes_ && kept_.size() > 1) {
    bytes_ -= kept_.back().second->size_bytes();
    kept_.pop_back();
  }
}

}  // namespace gpumemprof
