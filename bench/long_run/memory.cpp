#include "long_run/memory.h"

#include "base/error.h"

namespace gpumemprof::long_run {
namespace {

// About 3 µs an event: an allocation and the two events of its free take 9 µs.
constexpr Recorder::Delay kAllocDelay{2'000, 10'000};
constexpr Recorder::Delay kFreeDelay{500, 2'000};
constexpr Recorder::Delay kCompletedDelay{300, 400};
constexpr Recorder::Delay kDriverDelay{80'000, 200'000};
constexpr std::uint64_t kCopyStreamHandle = 0x5581'C0DE'4A10;

sim::AllocatorOptions allocator_options(std::uint64_t card_bytes) {
  sim::AllocatorOptions options;
  options.rules = sim::rules_for({2, 11});
  options.device_total_bytes = card_bytes;
  options.limit.device_bytes = card_bytes - kGiB;  // the context and the firmware take some
  return options;
}

}  // namespace

Memory::Memory(Recorder& recorder, std::uint64_t card_bytes)
    : recorder_(&recorder), allocator_(allocator_options(card_bytes), addresses_) {
  allocator_.keep_calls(true);
  TraceWriter& writer = recorder.writer();
  pool_ = writer.add_pool(PoolId());
  for (const Stream stream : {Stream::compute, Stream::copy}) {
    const auto index = static_cast<std::size_t>(stream);
    streams_[index] = writer.add_stream(stream == Stream::compute ? 0 : kCopyStreamHandle);
    stream_pools_[index] =
        allocator_.add_stream_pool({static_cast<std::uint32_t>(index), sim::kDefaultPool});
  }
}

void Memory::run(const Script& script, std::uint64_t tokens) {
  for (const Instruction& instruction : script.instructions()) {
    if (instruction.kind == Instruction::Kind::allocate) {
      allocate(instruction.slot, instruction.size.bytes(tokens), instruction.place);
    } else {
      free(instruction.slot, instruction.place.stack);
    }
  }
}

void Memory::record(Action action, std::uint64_t address, std::uint64_t size_bytes,
                    const Place& place, Recorder::Delay delay) {
  Event event;
  event.action = action;
  event.address = address;
  event.size_bytes = size_bytes;
  event.stream = streams_[static_cast<std::size_t>(place.stream)];
  event.stack = place.stack;
  event.forward_stack = place.forward_stack;
  event.module = place.module;
  event.pool = pool_;
  recorder_->add(event, delay);
}

void Memory::record_calls(StackId stack) {
  for (const sim::DeviceCall& call : allocator_.calls()) {
    Place place;
    place.stack = stack;
    place.stream = static_cast<Stream>(call.stream);
    record(call.action, call.address, call.size_bytes, place, kDriverDelay);
    has_pool_changed_ = true;
  }
  allocator_.clear_calls();
}

// An allocation's last call of the driver is what raised the reserved bytes.
void Memory::see_reserved() {
  const std::uint64_t bytes = counters().reserved_bytes.current();
  const std::uint64_t event = recorder_->rows() - 1;
  peak_.reserved.see(bytes, event);
  interval_peak_.reserved.see(bytes, event);
}

void Memory::allocate(Slot slot, std::uint64_t size_bytes, const Place& place) {
  if (slot >= live_.size()) live_.resize(slot + std::size_t{1});
  const AllocationId id(slot);
  const bool fits = allocator_.allocate(id, size_bytes, stream_pool(place.stream));
  GMP_CHECK(fits);
  if (!allocator_.calls().empty()) [[unlikely]] {
    record_calls(place.stack);
    see_reserved();
  }
  const std::uint64_t address = allocator_.placement(id).address;
  live_[slot] = {address, size_bytes, place.stream};
  record(Action::alloc, address, size_bytes, place, kAllocDelay);
  const std::uint64_t allocated_bytes = counters().allocated_bytes.current();
  peak_.allocated.see(allocated_bytes, recorder_->rows() - 1);
  interval_peak_.allocated.see(allocated_bytes, recorder_->rows() - 1);
  if (recorder_->is_sample_due(has_pool_changed_)) {
    recorder_->sample_card(counters().reserved_bytes.current());
    has_pool_changed_ = false;
  }
}

void Memory::free(Slot slot, StackId stack) {
  const Live& live = live_[slot];
  Place place;
  place.stack = stack;
  place.stream = live.stream;
  record(Action::free_requested, live.address, live.size_bytes, place, kFreeDelay);
  record(Action::free_completed, live.address, live.size_bytes, place, kCompletedDelay);
  allocator_.free(AllocationId(slot));
}

void Memory::fail_to_allocate(std::uint64_t size_bytes, const Place& place) {
  const AllocationId unused(live_.size());
  const bool fits = allocator_.allocate(unused, size_bytes, stream_pool(place.stream));
  GMP_CHECK(!fits);
  record_calls(place.stack);
  const std::uint64_t free_bytes =
      allocator_.options().limit.device_bytes - allocator_.reserved_bytes();
  record(Action::oom, free_bytes, allocator_.options().settings.round_size(size_bytes), place,
         kDriverDelay);
}

void Memory::empty_cache(StackId stack) {
  allocator_.empty_cache();
  record_calls(stack);
}

}  // namespace gpumemprof::long_run
