#include "estimate/simulated_device.h"

#include <algorithm>

#include "capture/capture.h"

namespace gpumemprof::estimate {
namespace {

sim::AllocatorOptions allocator_options(const SimulatedDeviceOptions& options,
                                        const AllocConf& conf, const sim::AllocatorRules& rules) {
  sim::AllocatorOptions allocator;
  allocator.settings = conf.settings;
  allocator.rules = rules;
  allocator.device_total_bytes = options.total_bytes;
  if (conf.memory_fraction)
    allocator.limit = sim::limit_of_fraction(*conf.memory_fraction, options.total_bytes, rules);
  allocator.limit.device_bytes = options.free_bytes;
  return allocator;
}

}  // namespace

Result<std::unique_ptr<SimulatedDevice>> SimulatedDevice::create(
    const SimulatedDeviceOptions& options) {
  Result<AllocConf> conf = parse_alloc_conf(options.settings, options.version);
  if (!conf) return conf.error();
  if (!conf.value().is_native_backend) {
    return Error{ErrorCode::usage, "cudaMallocAsync cannot be predicted: the driver keeps its pool",
                 "PYTORCH_CUDA_ALLOC_CONF", "leave out backend:cudaMallocAsync"};
  }
  return std::unique_ptr<SimulatedDevice>(new SimulatedDevice(options, conf.value()));
}

SimulatedDevice::SimulatedDevice(SimulatedDeviceOptions options, const AllocConf& conf)
    : options_(std::move(options)),
      rules_(sim::rules_for(options_.version)),
      allocator_(allocator_options(options_, conf, rules_), addresses_),
      other_orders_(allocator_.options()) {
  allocator_.keep_calls(true);
}

sim::PoolIndex SimulatedDevice::pool_index(const PoolId& pool) {
  const auto found = std::find(pools_.begin(), pools_.end(), pool);
  if (found != pools_.end())
    return sim::PoolIndex(static_cast<std::size_t>(found - pools_.begin()));
  pools_.push_back(pool);
  const sim::PoolKind kind = pool.graph != 0 ? sim::PoolKind::graph : sim::PoolKind::user;
  other_orders_.add_pool(kind);
  return allocator_.add_pool(kind);
}

sim::StreamPoolId SimulatedDevice::stream_pool(std::uint64_t stream, const PoolId& pool) {
  const auto found = stream_pools_.find({stream, pool});
  if (found != stream_pools_.end()) return found->second;
  const auto known = std::find(streams_.begin(), streams_.end(), stream);
  const auto number = static_cast<std::uint32_t>(known - streams_.begin());
  if (known == streams_.end()) streams_.push_back(stream);
  const sim::StreamPoolKey key{number, pool_index(pool)};
  other_orders_.add_stream_pool(key);
  const sim::StreamPoolId id = allocator_.add_stream_pool(key);
  stream_pools_.emplace(Origin(stream, pool), id);
  return id;
}

void SimulatedDevice::report(Action action, std::uint64_t address, std::uint64_t size_bytes,
                             std::uint64_t stream, const PoolId& pool) const {
  capture::SimulatedEvent event;
  event.action = action;
  event.device = options_.device;
  event.address = address;
  event.size_bytes = size_bytes;
  event.stream = stream;
  event.pool = pool;
  capture::report_simulated(event);
}

void SimulatedDevice::report_calls() {
  for (const sim::DeviceCall& call : allocator_.calls()) {
    report(call.action, call.address, call.size_bytes, streams_[call.stream],
           pools_[call.pool.index]);
  }
  allocator_.clear_calls();
}

std::uint64_t SimulatedDevice::room_bytes() const {
  const sim::MemoryLimit& limit = allocator_.options().limit;
  const std::uint64_t most = std::min(limit.allowed_bytes, limit.device_bytes);
  return most - std::min(most, allocator_.reserved_bytes());
}

void SimulatedDevice::report_out_of_memory(std::uint64_t size_bytes, std::uint64_t stream,
                                           const PoolId& pool) {
  const std::uint64_t block_bytes = allocator_.options().settings.round_size(size_bytes);
  report(Action::oom, room_bytes(), block_bytes, stream, pool);
}

std::optional<std::uint64_t> SimulatedDevice::allocate(std::uint64_t size_bytes,
                                                       std::uint64_t stream, const PoolId& pool) {
  const std::lock_guard lock(mutex_);
  const AllocationId id(next_allocation_++);
  const bool fits = allocator_.allocate(id, size_bytes, stream_pool(stream, pool));
  report_calls();
  if (!fits) {
    report_out_of_memory(size_bytes, stream, pool);
    return std::nullopt;
  }
  other_orders_.allocate(id, size_bytes, stream_pool(stream, pool));
  const std::uint64_t address = allocator_.placement(id).address;
  live_[address] = {id, size_bytes, stream, pool};
  report(Action::alloc, address, size_bytes, stream, pool);
  const sim::Counters& counters = allocator_.counters();
  peak_allocated_bytes_ = std::max(peak_allocated_bytes_, counters.allocated_bytes.current());
  peak_reserved_bytes_ = std::max(peak_reserved_bytes_, counters.reserved_bytes.current());
  return address;
}

bool SimulatedDevice::free(std::uint64_t address) {
  const std::lock_guard lock(mutex_);
  const auto found = live_.find(address);
  if (found == live_.end()) return false;
  const Live live = found->second;
  live_.erase(found);
  report(Action::free_requested, address, live.size_bytes, live.stream, live.pool);
  report(Action::free_completed, address, live.size_bytes, live.stream, live.pool);
  // Programs free nothing before they compute.
  addresses_.on_kernel();
  allocator_.free(live.id);
  other_orders_.free(live.id);
  return true;
}

void SimulatedDevice::empty_cache() {
  const std::lock_guard lock(mutex_);
  allocator_.empty_cache();
  other_orders_.empty_cache();
  report_calls();
}

void SimulatedDevice::release_pool(const PoolId& pool) {
  const std::lock_guard lock(mutex_);
  if (pool == PoolId()) return;
  allocator_.release_pool(pool_index(pool));
  other_orders_.release_pool(pool_index(pool));
}

void SimulatedDevice::empty_pool(const PoolId& pool) {
  const std::lock_guard lock(mutex_);
  if (pool == PoolId()) return;
  allocator_.empty_pool(pool_index(pool));
  other_orders_.empty_pool(pool_index(pool));
  report_calls();
}

void SimulatedDevice::limit_fraction(double fraction) {
  const std::lock_guard lock(mutex_);
  sim::MemoryLimit limit = sim::limit_of_fraction(fraction, options_.total_bytes, rules_);
  limit.device_bytes = options_.free_bytes;
  allocator_.set_limit(limit);
}

void SimulatedDevice::reset_peaks() {
  const std::lock_guard lock(mutex_);
  allocator_.reset_peaks();
}

sim::Counters SimulatedDevice::counters() const {
  const std::lock_guard lock(mutex_);
  return allocator_.counters();
}

std::uint64_t SimulatedDevice::peak_allocated_bytes() const {
  const std::lock_guard lock(mutex_);
  return peak_allocated_bytes_;
}

std::uint64_t SimulatedDevice::peak_reserved_bytes() const {
  const std::lock_guard lock(mutex_);
  return peak_reserved_bytes_;
}

std::pair<std::uint64_t, std::uint64_t> SimulatedDevice::peak_reserved_range() const {
  const std::lock_guard lock(mutex_);
  std::pair range(peak_reserved_bytes_, peak_reserved_bytes_);
  const sim::Counters& counters = allocator_.counters();
  if (counters.num_alloc_retries > 0 || counters.num_ooms > 0) return range;
  for (const std::uint64_t peak : other_orders_.peak_reserved_bytes()) {
    range.first = std::min(range.first, peak);
    range.second = std::max(range.second, peak);
  }
  return range;
}

std::uint64_t SimulatedDevice::free_bytes() const {
  const std::lock_guard lock(mutex_);
  const std::uint64_t most = options_.free_bytes;
  return most - std::min(most, allocator_.reserved_bytes());
}

}  // namespace gpumemprof::estimate
