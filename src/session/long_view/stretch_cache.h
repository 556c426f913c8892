// StretchCache: the stretches of a long run that were asked for last, bounded in bytes.
//
// Safe to use from any number of threads: two that ask for the same stretch wait for one reading.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <set>

#include "session/long_view/stretch.h"

namespace gpumemprof {

using StretchPtr = std::shared_ptr<const Stretch>;

class StretchCache {
 public:
  explicit StretchCache(std::size_t most_bytes) : most_bytes_(most_bytes) {}

  struct Key {
    DeviceIndex device = 0;
    std::size_t first = 0;  // checkpoint
    std::size_t end = 0;
    auto operator<=>(const Key&) const = default;
  };
  // The stretch, or what `open` returns for it.
  Result<StretchPtr> get(const Key& key, const std::function<Result<StretchPtr>()>& open);

 private:
  void keep(const Key& key, const StretchPtr& stretch);

  std::mutex mutex_;  // guards all that follows
  std::condition_variable opened_;
  std::list<std::pair<Key, StretchPtr>> kept_;  // the one used last is first
  std::set<Key> opening_;
  std::size_t bytes_ = 0;
  std::size_t most_bytes_;
};

}  // namespace gpumemprof
