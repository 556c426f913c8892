// SpanIndex: which phase an event lies in, and where the phases around it begin.
#pragma once

#include <vector>

#include "analysis/sources/sources.h"

namespace gpumemprof {

class SpanIndex {
 public:
  SpanIndex(const std::vector<PhaseSpan>& spans, std::size_t events);

  [[nodiscard]] std::size_t count() const { return first_.size(); }
  // The run of spans of one phase that contains the event; step boundaries do not split a run.
  [[nodiscard]] std::size_t run_of(std::uint32_t event) const;
  [[nodiscard]] Phase phase(std::size_t run) const { return phase_[run]; }
  [[nodiscard]] std::uint32_t first(std::size_t run) const { return first_[run]; }
  // The event after its last.
  [[nodiscard]] std::uint32_t end(std::size_t run) const {
    return run + 1 < first_.size() ? first_[run + 1] : events_;
  }
  // The next run of that phase after this one; count() if there is none.
  [[nodiscard]] std::size_t next_forward(std::size_t run) const { return next_forward_[run]; }
  [[nodiscard]] std::size_t next_backward(std::size_t run) const { return next_backward_[run]; }
  // The first event of a run; the end of all events for count().
  [[nodiscard]] std::uint32_t start_of(std::size_t run) const {
    return run < first_.size() ? first_[run] : kNoEvent;
  }

 private:
  static constexpr std::uint32_t kStride = 256;
  std::vector<std::uint32_t> first_;
  std::vector<Phase> phase_;
  std::vector<std::size_t> next_forward_;
  std::vector<std::size_t> next_backward_;
  std::vector<std::uint32_t> run_at_stride_;  // of every kStride-th event
  std::uint32_t events_ = 0;
};

}  // namespace gpumemprof
