// Memory: the program's GPU memory. Requests are placed by the simulated caching allocator, and
// what it does is recorded, so that every address and every segment is what torch would report.
//
// Owns the allocator. Its memory is bounded by the number of slots: a slot is the allocator's id of
// the tensor, and is used again.
#pragma once

#include <cstdint>
#include <vector>

#include "estimate/driver_addresses.h"
#include "long_run/recorder.h"
#include "long_run/script.h"
#include "sim/allocator/allocator.h"

namespace gpumemprof::long_run {

// The most that was ever counted, and the event that made it so.
struct Maximum {
  std::uint64_t bytes = 0;
  std::uint64_t event = 0;

  void see(std::uint64_t now_bytes, std::uint64_t now_event) {
    if (now_bytes > bytes) *this = {now_bytes, now_event};
  }
};

struct Peak {
  Maximum allocated;
  Maximum reserved;
};

class Memory {
 public:
  Memory(Recorder& recorder, std::uint64_t card_bytes);

  void run(const Script& script, std::uint64_t tokens);
  void allocate(Slot slot, std::uint64_t size_bytes, const Place& place);
  void free(Slot slot, StackId stack);
  // A request that must fail: the program catches the error.
  void fail_to_allocate(std::uint64_t size_bytes, const Place& place);
  void empty_cache(StackId stack);

  [[nodiscard]] std::uint64_t address(Slot slot) const { return live_[slot].address; }
  [[nodiscard]] const sim::Counters& counters() const { return allocator_.counters(); }
  [[nodiscard]] const Peak& peak() const { return peak_; }
  // The peak since begin_interval().
  [[nodiscard]] const Peak& interval_peak() const { return interval_peak_; }
  void begin_interval() { interval_peak_ = {}; }

 private:
  struct Live {
    std::uint64_t address = 0;
    std::uint64_t size_bytes = 0;
    Stream stream = Stream::compute;
  };

  void record(Action action, std::uint64_t address, std::uint64_t size_bytes, const Place& place,
              Recorder::Delay delay);
  void record_calls(StackId stack);
  void see_reserved();
  [[nodiscard]] sim::StreamPoolId stream_pool(Stream stream) const {
    return stream_pools_[static_cast<std::size_t>(stream)];
  }

  Recorder* recorder_;
  estimate::DriverAddresses addresses_;
  sim::Allocator allocator_;
  sim::StreamPoolId stream_pools_[2];
  std::uint32_t streams_[2];  // rows in the file
  std::uint32_t pool_ = 0;    // likewise
  std::vector<Live> live_;    // by slot
  bool has_pool_changed_ = false;
  Peak peak_;
  Peak interval_peak_;
};

}  // namespace gpumemprof::long_run
