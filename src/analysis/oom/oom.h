// Why an allocation failed: which limit on memory it hit, how much was missing, and what would have
// served it.
//
// Two limits apply at once: what the process is allowed, and what the card has left. The verdict
// names the one that was hit. "Fragmentation" is reported only if memory would have sufficed in one
// piece, which is proof of it where the figures are exact; whether an allocator setting provides
// that piece is another question, which is simulated. What could not be proven carries its doubts.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/fragmentation/free_memory.h"
#include "analysis/growth/growth.h"
#include "analysis/leaks/leaks.h"
#include "replay/replay.h"
#include "store/store.h"

namespace gpumemprof {

enum class OomCause : std::uint8_t {
  larger_than_card,  // the request alone exceeds the whole card
  limit,             // a limit on this process refused it while the card had room
  other_processes,   // they hold what would have sufficed
  outside_pool,      // this process holds what would have sufficed, but not in PyTorch's pool
  private_pool,      // enough was free, but only for a CUDA graph or another owner of a pool
  deferred_frees,    // enough was freed, but a stream still used it
  fragmentation,     // enough was free, but in pieces
  growth,            // a shortage that memory kept from step to step had made
  single_request,    // a shortage by one request that is far larger than all before it
  shortage,          // even in one piece, there was not enough
};
std::string_view oom_cause_name(OomCause cause);

// Why a verdict is only probable, or a remedy is not certain.
enum class OomDoubt : std::uint8_t {
  history,     // events before it are missing, so what the pool held is inferred
  limit,       // the recording does not state the limit; it lies in a range
  card,        // the recording does not say what else was on the card
  processes,   // the driver did not report which process held what, or it changed since
  simulation,  // the simulator does not reproduce the recording exactly
  no_setting,  // no simulated setting avoids it
  not_tried,   // nothing was simulated
};
std::string_view oom_doubt_name(OomDoubt doubt);

// What is known about a figure: both ends are equal if it is exact.
struct ByteRange {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  [[nodiscard]] bool is_exact() const { return low == high; }
};

struct OomReport {
  std::uint32_t event = kNoEvent;
  std::uint64_t wanted_bytes = 0;                   // rounded
  std::uint64_t device_free_bytes = kUnknownBytes;  // as reported by the driver
  std::uint64_t largest_free_bytes = 0;             // one piece, of the requesting stream
  FreeMemory memory;  // at the failure, with everything returnable returned
  StackId stack;

  OomCause cause = OomCause::shortage;
  std::vector<OomCause> contributing;  // what also held memory, but was not the limit hit
  std::vector<OomDoubt> doubts;        // about the cause; none: proven
  // Of fragmentation whose cause is proven: why no setting is named, or not for certain.
  std::vector<OomDoubt> remedy_doubts;
  std::optional<ByteRange> limit;  // on the process, if there was one
  bool is_limit_stated = false;
  std::optional<std::uint64_t> card_bytes;  // available to processes
  std::optional<std::uint64_t> other_processes_bytes;
  std::optional<std::uint64_t> outside_bytes;  // of this process, outside its pool
  std::optional<ByteRange> short_bytes;        // beyond what would have been free in one piece
  // The requesting line had filled the memory by itself and freed nothing: this many blocks.
  std::uint64_t hoarded_blocks = 0;
  std::uint64_t largest_earlier_bytes = 0;  // of all requests before it
  std::optional<std::uint64_t>
      grown_bytes;  // kept from step to step until then, if it kept growing
  std::vector<std::string> surviving_confs;    // simulated: settings that avoid the failure
  std::uint64_t surviving_reserved_bytes = 0;  // simulated: the most the first of them reserves
  bool is_simulation_skipped = false;  // for lack of time: it might have found such a setting
  // What the program would still have needed follows from the recording, or it recovered by itself:
  // then advice can name what fits.
  bool is_need_known = false;

  [[nodiscard]] bool is_proven() const { return doubts.empty(); }
  [[nodiscard]] std::uint64_t in_use_bytes() const {
    return memory.allocated_bytes + memory.waiting_bytes;
  }
};

// Whether a record holds the whole run or a window of it: what would have to be simulated from the
// first event on is then not tried.
enum class HistoryPart : std::uint8_t { whole, window };
// What the program had asked for until then, if the record holds a window.
struct EarlierRequests {
  std::uint64_t largest_bytes = 0;
  std::uint64_t count = 0;
};
// `samples`: of the device, numbered like the record's events.
OomReport oom_at(const Store& store, const DeviceRecord& record, const DeviceReplay& replay,
                 const std::vector<DeviceSample>& samples, std::uint32_t event, HistoryPart part,
                 EarlierRequests earlier = {});

// At most the first `limit` of them: each is a sweep over the whole history.
std::vector<OomReport> find_ooms(const Store& store, const DeviceRecord& record,
                                 const DeviceReplay& replay, std::size_t limit);

// Other settings are tried on histories of at most this many events.
inline constexpr std::size_t kMostSimulatedEvents = 10'000'000;
using SimulationDeadline = std::optional<std::chrono::steady_clock::time_point>;
// The one at this event. No simulation starts after the deadline.
OomReport find_oom_at(const Store& store, const DeviceRecord& record, const DeviceReplay& replay,
                      std::uint32_t event, const SimulationDeadline& deadline = {});

// A shortage is blamed on growth if without it the request would have fit, fragmentation if growth
// has also taken more than the gaps waste: joining them would only delay the failure. `step` is the
// one in which memory ran out.
void blame_growth(OomReport& oom, const Growth& growth, std::optional<std::uint64_t> step);
// The same with what leaks, which is also known of runs without training steps: requests, calls,
// steps that the program marks. Only for a failure among the last of so many events: what had
// leaked by then is what is there at the end.
void blame_leaks(OomReport& oom, const DeviceLeaks& leaks, std::size_t events);

}  // namespace gpumemprof
