// StreamedHistory: the whole run of a device, for a verdict about a failure of which only a window
// is in memory. The run is read again for each question, part by part, so memory does not grow with
// it. Answers as the whole run in memory does (joined.h).
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "analysis/oom/joined.h"
#include "event/alloc_conf.h"
#include "sim/limit.h"
#include "sim/recorded_run.h"
#include "sim/simulate.h"
#include "sim/verify.h"

namespace gpumemprof {

class StreamedHistory;

// A failure in a run of which the record holds a window, and its number in the whole run. Null: it
// cannot be read again.
struct WholeRun {
  StreamedHistory* history = nullptr;
  std::uint32_t event = kNoEvent;
};
OomReport oom_in_window(const Store& store, const DeviceRecord& record, const DeviceReplay& replay,
                        const std::vector<DeviceSample>& samples, std::uint32_t event,
                        EarlierRequests earlier, const WholeRun& whole);

class StreamedHistory {
 public:
  using Take = std::function<void(const EventColumns& events)>;
  // Delivers all events of the device, in order, with the stacks and pools of the store.
  using Deliver = std::function<Status(const Take& take)>;
  struct Run {
    DeviceIndex device = 0;
    const ListedState* start = nullptr;
    const DeviceReplay* replay = nullptr;  // exact from the first event on
    std::size_t events = 0;
  };
  // The store and what the run points to must outlive it.
  StreamedHistory(const Store& store, const Run& run, Deliver deliver);

  // Whether a run with this state at its start can be read so: it must say itself which pool its
  // events belong to.
  static bool can_read(const Store& store, const ListedState& start, const DeviceReplay& replay);

  [[nodiscard]] const std::optional<sim::InferredLimit>& inferred_limit();
  // The settings under which the event's request, and all before it, would have succeeded.
  [[nodiscard]] JoinedRuns::Answer survivors(std::uint32_t event, const sim::MemoryLimit& limit);
  // Whether this line had freed memory before the event, or asked for blocks of another size.
  [[nodiscard]] bool is_varied(StackId stack, std::uint64_t block_bytes, std::uint32_t event);

 private:
  struct Proof {
    TorchVersion version;
    sim::MemoryLimit limit;
    std::uint64_t mismatches = 0;
    bool is_exact = false;
  };
  struct Trial {
    AllocConf conf;
    std::optional<sim::SimulationResult> result;  // none: there was nothing to simulate
  };

  // Null if it could not be read.
  const Proof* prove();
  std::optional<Proof> prove_under(TorchVersion version,
                                   const std::optional<sim::MemoryLimit>& limit);
  bool try_all(const Proof& proof, std::vector<Trial>& trials, std::size_t first, std::size_t count,
               const sim::MemoryLimit& limit);
  [[nodiscard]] sim::VerifyOptions verify_options(TorchVersion version) const;

  const Store& store_;
  Run run_;
  Deliver deliver_;
  std::vector<PoolId> pools_;
  std::vector<sim::NamedCounter> counters_;
  sim::RecordedRun recorded_;  // without events
  bool is_limit_known_ = false;
  std::optional<sim::InferredLimit> inferred_;
  bool is_proof_tried_ = false;
  std::optional<Proof> proof_;
};

}  // namespace gpumemprof
