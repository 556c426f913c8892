// LifetimeListener: hears of allocations as they are played, for what is too long to keep whole.
#pragma once

#include "base/id.h"

namespace gpumemprof {

class LifetimeListener {
 public:
  LifetimeListener() = default;
  LifetimeListener(const LifetimeListener&) = delete;
  LifetimeListener& operator=(const LifetimeListener&) = delete;
  virtual ~LifetimeListener() = default;

  // Its row is complete, and stays its own until it has been freed.
  virtual void allocated(AllocationId row) = 0;
  // Its owner freed it; the row is still there.
  virtual void freed(AllocationId row) = 0;
};

}  // namespace gpumemprof
