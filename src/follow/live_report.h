// LiveReport: what a followed run looks like now.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "event/event.h"
#include "event/memory_source.h"
#include "event/recording.h"

namespace gpumemprof {

// A training step, as the program's optimizers or its own marks divide the run.
struct LiveStep {
  std::uint32_t number = 0;  // from 1
  std::uint64_t peak_bytes = 0;
  std::uint64_t floor_bytes = 0;  // the least that was allocated in it
  std::uint64_t end_bytes = 0;
};

// A line of user code, and what it holds now.
struct LiveSite {
  std::string file;
  std::uint32_t line = 0;
  std::string function;      // empty, like the file: no stack was recorded
  bool is_backward = false;  // allocated by the backward of this line
  std::uint64_t bytes = 0;   // requested
  std::uint64_t blocks = 0;
  // How much of it stayed from step to step lately, if that keeps growing.
  std::optional<double> growth_bytes_per_step;
};

struct LiveDevice {
  std::string name;  // "cuda:0"
  std::string card;  // "NVIDIA H200"; empty: unknown
  bool has_pool = true;
  std::uint64_t events = 0;
  std::uint64_t lost_events = 0;
  std::int64_t last_time_ns = kUnknownTime;

  std::uint64_t allocated_bytes = 0;
  std::uint64_t active_bytes = 0;
  std::uint64_t reserved_bytes = 0;
  std::uint64_t peak_allocated_bytes = 0;
  std::uint64_t peak_reserved_bytes = 0;
  // Since the previous report: the true maxima, not samples.
  std::uint64_t recent_peak_allocated_bytes = 0;
  std::uint64_t recent_peak_reserved_bytes = 0;
  std::uint64_t ooms = 0;
  // Unknown where empty_cache() left the same events; then `unclear_retries` of them may be some.
  std::optional<std::uint64_t> retries;
  std::uint64_t unclear_retries = 0;
  std::uint64_t segment_frees = 0;
  bool is_exact =
      true;  // false: the start is unknown, or events were lost or contradict each other

  // Of the card, when it was last sampled.
  std::optional<std::uint64_t> total_bytes;
  std::optional<std::uint64_t> used_bytes;
  std::optional<std::uint64_t> process_bytes;
  std::optional<std::uint64_t> other_processes_bytes;
  // What this process held outside of the pool at that moment.
  std::optional<std::uint64_t> outside_pool_bytes;
  // Inferred: the sample, plus what the pool has taken or returned since; and the most of that
  // since the previous report.
  std::optional<std::uint64_t> used_now_bytes;
  std::optional<std::uint64_t> recent_peak_used_bytes;
  // The program limited its own pool to this (set_per_process_memory_fraction).
  std::optional<std::uint64_t> limit_bytes;

  std::array<std::uint64_t, kMemorySourceCount> bytes_by_source{};  // by MemorySource
  std::uint64_t labelled_bytes = 0;  // of these: what the program's own hooks named
  std::vector<LiveStep> steps;       // the last of them; the newest is still running
  std::vector<LiveSite> sites;       // most bytes first
};

// Something that a user should know at once, as one sentence. A watcher shows all of them, the most
// severe first, so whoever finds something new only adds one.
struct LiveNotice {
  enum class Severity : std::uint8_t { note, warning, failure };
  Severity severity = Severity::note;
  std::string kind;    // "growth", "out_of_memory": for programs, and does not change
  std::string device;  // "cuda:0"; empty: the whole process
  std::string text;
};

struct LiveReport {
  std::string path;
  std::uint64_t file_bytes = 0;  // that were read
  bool is_behind = false;        // more has been written than was read
  std::optional<Ending> ending;  // none: not closed
  std::string command;
  std::string host;
  std::string job;         // the launcher's own name for it
  std::string gpumemprof;  // its version, as torch's
  std::string torch;
  std::optional<std::uint64_t> pid;
  std::optional<std::uint64_t> rank;
  std::optional<std::uint64_t> world_size;
  std::vector<LiveDevice> devices;
  std::vector<std::string> alerts;  // the last that the program raised, the newest first
  std::vector<LiveNotice> notices;  // the most severe first
};

}  // namespace gpumemprof
