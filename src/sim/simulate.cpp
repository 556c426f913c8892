#include "sim/simulate.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/error.h"
#include "sim/partwise.h"

namespace gpumemprof::sim {
namespace {

Status check_first_segment(const RequestColumns& requests, const SimulationOptions& options) {
  const std::uint64_t limit = std::min(options.limit.allowed_bytes, options.limit.device_bytes);
  if (requests.allocation_count() == 0 || limit == kNoLimit) return Done{};
  const std::uint64_t needed =
      segment_bytes_for(options.settings.round_size(requests.size_bytes[0]), options.settings);
  if (needed <= limit) return Done{};
  return Error{ErrorCode::usage,
               "a memory limit of " + format_bytes(limit) +
                   " is less than the first segment the program needs, " + format_bytes(needed),
               "", "give a larger limit"};
}

}  // namespace

// Writes the events of a simulated run; does nothing if they were not requested.
class EventWriter {
 public:
  EventWriter(EventColumns* events, const EventColumns* recorded)
      : events_(events), recorded_(recorded) {}

  [[nodiscard]] bool is_on() const { return events_ != nullptr; }

  void write(Action action, std::uint64_t address, std::uint64_t size_bytes, std::uint32_t stream,
             std::uint32_t recorded_event) {
    Event event;
    if (recorded_ != nullptr && recorded_event < recorded_->size())
      event = recorded_->row(recorded_event);
    event.action = action;
    event.address = address;
    event.size_bytes = size_bytes;
    event.stream = stream;
    events_->push_back(event);
  }

  void write_calls(Allocator& allocator, std::uint32_t recorded_event) {
    for (const DeviceCall& call : allocator.calls()) {
      write(call.action, call.address, call.size_bytes, call.stream, recorded_event);
    }
    allocator.clear_calls();
  }

 private:
  EventColumns* events_;
  const EventColumns* recorded_;
};

class SimulatedRequests {
 public:
  SimulatedRequests(const RequestColumns& requests, const SimulationOptions& options,
                    EventWriter writer)
      : requests_(requests),
        options_(options),
        writer_(writer),
        allocator_({options.settings, options.rules, options.limit, options.device_total_bytes},
                   addresses_) {
    allocator_.keep_calls(writer_.is_on());
  }

  SimulationResult run() {
    serve_all();
    return finish();
  }

  // The rows that there are now.
  void serve_all() {
    declare_pools();
    allocator_.reserve_allocations(requests_.allocation_count());
    const std::size_t count = result_.is_complete ? requests_.size() : 0;
    for (std::size_t row = 0; row < count; ++row) {
      if (!serve(requests_.kind[row], requests_.operand[row], row) && options_.stops_at_first_oom) {
        result_.is_complete = false;
        break;
      }
      if (options_.curve != nullptr) note_level(requests_.event[row]);
    }
  }

  SimulationResult finish() {
    result_.counters = allocator_.counters();
    result_.peak_allocated_bytes = result_.counters.allocated_bytes.peak();
    result_.peak_reserved_bytes = result_.counters.reserved_bytes.peak();
    return result_;
  }

 private:
  // Ids stay the same.
  void declare_pools() {
    for (; pools_ < requests_.pools.size(); ++pools_) allocator_.add_pool(requests_.pools[pools_]);
    for (; stream_pools_ < requests_.stream_pools.size(); ++stream_pools_)
      allocator_.add_stream_pool(requests_.stream_pools[stream_pools_]);
  }

  // False where memory ran out.
  bool serve(RequestKind kind, std::uint32_t operand, std::size_t row) {
    switch (kind) {
      case RequestKind::allocate:
        return allocate(AllocationId(operand), row);
      case RequestKind::free:
        if (writer_.is_on()) write_free(AllocationId(operand), Action::free_requested, row);
        if (writer_.is_on()) write_free(AllocationId(operand), Action::free_completed, row);
        allocator_.free(AllocationId(operand));
        return true;
      case RequestKind::request_free:
        if (writer_.is_on()) write_free(AllocationId(operand), Action::free_requested, row);
        allocator_.request_free(AllocationId(operand));
        return true;
      case RequestKind::complete_free:
        if (writer_.is_on()) write_free(AllocationId(operand), Action::free_completed, row);
        allocator_.complete_free(AllocationId(operand));
        return true;
      case RequestKind::failed_allocate: {
        const bool fits = allocate(AllocationId(operand), row);
        if (fits) serve(RequestKind::free, operand, row);
        return fits;
      }
      case RequestKind::empty_cache:
        allocator_.empty_cache();
        break;
      case RequestKind::release_pool:
        allocator_.release_pool(PoolIndex(operand));
        break;
      case RequestKind::empty_pool:
        allocator_.empty_pool(PoolIndex(operand));
        break;
    }
    if (writer_.is_on()) writer_.write_calls(allocator_, requests_.event[row]);
    return true;
  }

  bool allocate(AllocationId id, std::size_t row) {
    const std::uint64_t requested_bytes = requests_.size_bytes[id.index];
    const StreamPoolId stream_pool = requests_.stream_pool[id.index];
    const bool fits = allocator_.allocate(id, requested_bytes, stream_pool);
    if (allocator_.reserved_bytes() > result_.peak_reserved_bytes) note_peak(row);
    if (!fits && result_.first_oom_event == kNoEvent) {
      // Memory from before the first event can only be missing from the first event on.
      result_.first_oom_event = requests_.event[row] == kNoEvent ? 0 : requests_.event[row];
    }
    if (!writer_.is_on()) return fits;
    writer_.write_calls(allocator_, requests_.event[row]);
    const std::uint32_t stream = requests_.stream_pools[stream_pool.index].stream;
    if (fits) {
      const std::uint64_t address = allocator_.placement(id).address;
      writer_.write(Action::alloc, address, requested_bytes, stream, requests_.event[row]);
    } else {
      const std::uint64_t limit =
          std::min(options_.limit.allowed_bytes, options_.limit.device_bytes);
      const std::uint64_t free_bytes = limit - std::min(limit, allocator_.reserved_bytes());
      const std::uint64_t block_bytes = options_.settings.round_size(requested_bytes);
      writer_.write(Action::oom, free_bytes, block_bytes, stream, requests_.event[row]);
    }
    return fits;
  }

  void note_level(std::uint32_t event) {
    AllocatedCurve& curve = *options_.curve;
    const std::size_t point = event == kNoEvent ? 0 : event / curve.events_per_point;
    // Every stretch starts with what the one before it left.
    while (curve.most_bytes.size() <= point) curve.most_bytes.push_back(level_bytes_);
    level_bytes_ = allocator_.counters().allocated_bytes.current();
    curve.most_bytes[point] = std::max(curve.most_bytes[point], level_bytes_);
  }

  void note_peak(std::size_t row) {
    const Counters& counters = allocator_.counters();
    result_.peak_reserved_bytes = allocator_.reserved_bytes();
    result_.active_bytes_at_peak = counters.active_bytes.current();
    result_.requested_bytes_at_peak = counters.requested_bytes.current();
    result_.peak_reserved_event = requests_.event[row];
  }

  void write_free(AllocationId id, Action action, std::size_t row) {
    if (!allocator_.is_live(id)) return;
    const std::uint32_t stream =
        requests_.stream_pools[requests_.stream_pool[id.index].index].stream;
    writer_.write(action, allocator_.placement(id).address, requests_.size_bytes[id.index], stream,
                  requests_.event[row]);
  }

  const RequestColumns& requests_;
  const SimulationOptions& options_;
  EventWriter writer_;
  RisingAddresses addresses_;
  Allocator allocator_;
  std::size_t pools_ = 1;  // that the allocator has; the default pool is always there
  std::size_t stream_pools_ = 0;
  SimulationResult result_;
  std::uint64_t level_bytes_ = 0;  // allocated after the last request, for the curve
};

double SimulationResult::fragmentation_at_peak() const {
  if (peak_reserved_bytes == 0) return 0;
  return 1.0 - static_cast<double>(active_bytes_at_peak) / static_cast<double>(peak_reserved_bytes);
}

double SimulationResult::reserved_beyond_need() const {
  if (peak_reserved_bytes == 0) return 0;
  return 1.0 - static_cast<double>(peak_allocated_bytes) / static_cast<double>(peak_reserved_bytes);
}

Result<SimulationResult> simulate(const RequestColumns& requests,
                                  const SimulationOptions& options) {
  if (Status status = check_first_segment(requests, options); !status) return status.error();
  return SimulatedRequests(requests, options, EventWriter(nullptr, nullptr)).run();
}

PartwiseSimulation::PartwiseSimulation(const RequestColumns& requests,
                                       const SimulationOptions& options)
    : options_(options),
      requests_(requests),
      run_(std::make_unique<SimulatedRequests>(requests, options_, EventWriter(nullptr, nullptr))) {
}

PartwiseSimulation::~PartwiseSimulation() = default;

void PartwiseSimulation::serve() {
  if (!is_checked_ && requests_.allocation_count() > 0) {
    is_checked_ = true;
    if (Status status = check_first_segment(requests_, options_); !status) error_ = status.error();
  }
  if (!error_) run_->serve_all();
}

Result<SimulationResult> PartwiseSimulation::finish() {
  if (error_) return *error_;
  return run_->finish();
}

Result<SimulatedRun> simulate_events(const RequestColumns& requests,
                                     const SimulationOptions& options,
                                     const EventColumns& recorded) {
  if (Status status = check_first_segment(requests, options); !status) return status.error();
  SimulatedRun simulated;
  simulated.result =
      SimulatedRequests(requests, options, EventWriter(&simulated.events, &recorded)).run();
  return simulated;
}

}  // namespace gpumemprof::sim
