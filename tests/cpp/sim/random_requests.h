// Random programs: allocations and frees on several streams and pools, record_stream, empty_cache.
#pragma once

#include <cmath>
#include <random>
#include <vector>

#include "sim/requests.h"

namespace gpumemprof::sim {

struct RandomProgram {
  std::uint32_t seed = 1;
  std::size_t steps = 1000;
  std::uint64_t hold_bytes = 400 * kMiB;
  double max_log2_bytes = 27;
  bool uses_streams = true;
  bool uses_pools = false;
};

class RandomRequests {
 public:
  explicit RandomRequests(const RandomProgram& program) : program_(program), chance_(program.seed) {
    const std::uint32_t streams = program.uses_streams ? 3 : 1;
    for (std::uint32_t stream = 0; stream < streams; ++stream) {
      requests_.add_stream_pool({stream, kDefaultPool});
    }
    if (program.uses_pools) {
      requests_.add_stream_pool({0, requests_.add_pool(PoolKind::graph)});
      requests_.add_stream_pool({1, requests_.add_pool(PoolKind::user)});
    }
  }

  RequestColumns make() && {
    for (std::size_t step = 0; step < program_.steps; ++step) {
      event_ = static_cast<std::uint32_t>(step);
      const double draw = uniform();
      if (!live_.empty() && (draw < 0.4 || live_bytes_ > program_.hold_bytes)) {
        free_one();
      } else if (draw < 0.41) {
        requests_.add(RequestKind::empty_cache, 0, event_);
      } else if (draw < 0.45 && !pending_.empty()) {
        complete_one();
      } else {
        allocate();
      }
    }
    return std::move(requests_);
  }

 private:
  double uniform() { return std::uniform_real_distribution<double>(0, 1)(chance_); }
  std::size_t pick(std::size_t count) { return static_cast<std::size_t>(chance_() % count); }

  static AllocationId take(std::vector<AllocationId>& from, std::size_t row) {
    const AllocationId id = from[row];
    from[row] = from.back();
    from.pop_back();
    return id;
  }

  void allocate() {
    const auto bytes = static_cast<std::uint64_t>(std::exp2(uniform() * program_.max_log2_bytes));
    const AllocationId id =
        requests_.add_allocation(bytes, StreamPoolId(pick(requests_.stream_pools.size())));
    requests_.add(RequestKind::allocate, id.index, event_);
    live_.push_back(id);
    live_bytes_ += bytes;
  }

  void free_one() {
    const AllocationId id = take(live_, pick(live_.size()));
    live_bytes_ -= requests_.size_bytes[id.index];
    if (program_.uses_streams && uniform() < 0.2) {
      requests_.add(RequestKind::request_free, id.index, event_);
      pending_.push_back(id);
    } else {
      requests_.add(RequestKind::free, id.index, event_);
    }
  }

  void complete_one() {
    const AllocationId id = take(pending_, pick(pending_.size()));
    requests_.add(RequestKind::complete_free, id.index, event_);
  }

  RandomProgram program_;
  std::mt19937 chance_;
  RequestColumns requests_;
  std::vector<AllocationId> live_;
  std::vector<AllocationId> pending_;
  std::uint64_t live_bytes_ = 0;
  std::uint32_t event_ = 0;
};

inline RequestColumns random_requests(const RandomProgram& program) {
  return RandomRequests(program).make();
}

}  // namespace gpumemprof::sim
