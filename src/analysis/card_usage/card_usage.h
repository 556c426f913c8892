// CardUsage: from what the program's tensors take to what the card reports as used, every byte by
// kind.
//
//   card total = firmware + this process + other processes + driver + free
//   this process = the pool (reserved) + what is outside it
//   the pool = allocated + waiting for a stream + cached and reusable + unusable
//
// Read from samples of the driver (NVML) in a live recording, so every sum equals what the driver
// reported at that moment, to the byte. Sizes are measured; the purpose of memory outside the pool
// is inferred from what the program was doing when it grew. What the driver does not report (a
// process in a container, an old driver) is none.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "event/provenance.h"
#include "store/store.h"

namespace gpumemprof {

// What memory outside the pool is used for.
enum class OutsideKind : std::uint8_t {
  context,           // CUDA itself: everything live when the recording started with an empty pool
  before_recording,  // the same, if the program had used the device before
  kernels,           // code, loaded when it first runs
  cublas,
  cudnn,
  cusolver,
  nccl,
};
inline constexpr std::size_t kOutsideKindCount = 7;
std::string_view outside_kind_name(OutsideKind kind);

struct OutsideGrowth {
  OutsideKind kind = OutsideKind::kernels;
  std::int64_t bytes = 0;          // negative: it was returned
  std::uint32_t before_event = 0;  // seen before this event
  StackId stack;                   // of the allocation that shows the kind; none if nothing does
};

struct CardUsage {
  DeviceIndex device = 0;
  std::uint32_t before_event = 0;  // the moment: the last sample of the recording
  std::int64_t time_ns = kUnknownTime;
  // The card; none if the driver did not report it.
  std::optional<std::uint64_t> total_bytes;
  std::optional<std::uint64_t> firmware_bytes;
  std::optional<std::uint64_t> used_bytes;  // by everyone, excluding the firmware
  std::optional<std::uint64_t> process_bytes;
  std::optional<std::uint64_t> other_processes_bytes;
  std::optional<std::uint64_t> driver_bytes;  // used, but by no process the driver lists
  std::optional<std::uint64_t> free_bytes;
  // The process.
  std::uint64_t reserved_bytes = 0;
  std::optional<std::uint64_t> outside_bytes;  // process − reserved
  std::vector<std::uint64_t> outside_by_kind;  // by OutsideKind; adds up to outside_bytes
  std::vector<OutsideGrowth> growth;
  // The pool.
  std::uint64_t requested_bytes = 0;  // of what is allocated
  std::uint64_t allocated_bytes = 0;
  std::uint64_t pending_bytes = 0;  // freed, but a stream still uses it
  std::uint64_t cached_bytes = 0;   // whole unused segments: could be returned to the driver
  std::uint64_t split_bytes = 0;    // free next to blocks in use: only for requests that fit
  // False: the pool changed while the driver was queried, and the two do not match.
  bool is_consistent = true;
};

// The code that allocated in a stretch of the history, by what it may take outside of the pool: the
// first stack of each kind.
struct SeenCode {
  std::array<StackId, kOutsideKindCount> stack;
  std::array<bool, kOutsideKindCount> is_seen{};
  void add(const SeenCode& later);
};
class OutsideCode {
 public:
  // The store must outlive it.
  explicit OutsideCode(const Store& store) : store_(store) {}
  // Events [first, end).
  void note(const EventColumns& events, std::size_t first, std::size_t end, SeenCode& seen);

 private:
  void find_stacks();

  const Store& store_;
  std::vector<OutsideKind> stacks_;
};

// A sample, where it falls among the events, and what allocated since the one before.
struct PlacedSample {
  DeviceSample sample;
  std::uint32_t position = 0;
  SeenCode seen;
};
// Everything but the pool's own figures. The record needs its segments only, the store its facts:
// whether NCCL made anything on the card.
std::optional<CardUsage> follow_card(const Store& store, const DeviceRecord& record,
                                     const std::vector<PlacedSample>& samples);
void look_into_pool(const DeviceRecord& record, Moment moment, CardUsage& usage);

// None if the recording has no sample of the device.
std::optional<CardUsage> find_card_usage(const Store& store, const DeviceRecord& record);

}  // namespace gpumemprof
