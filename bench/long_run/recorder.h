// Recorder: stands for the recorder of a live run. It gives events their times, hands them to the
// writer in batches, flushes as the drain thread does, and samples the card.
#pragma once

#include <cstdint>

#include "long_run/random.h"
#include "trace/writer.h"

namespace gpumemprof::long_run {

struct RecorderOptions {
  std::uint64_t seed = 1;
  std::uint64_t flush_every = 0;  // events
  std::uint64_t card_bytes = 0;
};

class Recorder {
 public:
  Recorder(TraceWriter& writer, const RecorderOptions& options);

  // The event's time is up to one of these after that of the event before.
  struct Delay {
    std::uint32_t least_ns = 0;
    std::uint32_t spread_ns = 0;
  };
  void add(Event event, Delay delay);
  // The program does something else for so long.
  void wait(std::int64_t duration_ns) { time_ns_ += duration_ns; }
  void sample_card(std::uint64_t reserved_bytes);
  [[nodiscard]] bool is_sample_due(bool has_pool_changed) const;

  [[nodiscard]] std::uint64_t rows() const { return rows_; }
  // For what is said between two events: labels, marks.
  [[nodiscard]] std::uint32_t next_row() const { return static_cast<std::uint32_t>(rows_); }
  [[nodiscard]] const EventCounts& counts() const { return counts_; }
  [[nodiscard]] TraceWriter& writer() { return *writer_; }

  void flush();
  Status close();

 private:
  void hand_over();

  TraceWriter* writer_;
  RecorderOptions options_;
  Random random_;
  EventColumns events_;
  EventCounts counts_;
  std::uint64_t rows_ = 0;
  std::uint64_t flushed_rows_ = 0;
  std::int64_t time_ns_;
  std::int64_t last_sample_ns_ = 0;
};

}  // namespace gpumemprof::long_run
