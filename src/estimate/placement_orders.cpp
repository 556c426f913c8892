#include "estimate/placement_orders.h"

#include <algorithm>
#include <array>

#include "sim/allocator/address_source.h"

namespace gpumemprof::estimate {
namespace {

// Places segments in slots, each of which is larger than any segment.
class ScatteredAddresses final : public sim::AddressSource {
 public:
  explicit ScatteredAddresses(std::uint64_t stride) : stride_(stride) {}
  std::uint64_t place_segment(std::uint64_t) override { return next_slot(); }
  std::uint64_t place_range(std::uint64_t) override { return next_slot(); }

 private:
  static constexpr unsigned kSlotBits = 42;
  static constexpr std::uint64_t kSlots = std::uint64_t{1} << 20;

  std::uint64_t next_slot() {
    const std::uint64_t number = count_++;
    // An odd stride visits every slot once before any twice; later ones come in rising order.
    const std::uint64_t slot = number < kSlots ? number * stride_ % kSlots : number;
    return (slot + 1) << kSlotBits;
  }

  std::uint64_t stride_;
  std::uint64_t count_ = 0;
};

// Odd, and far from each other's multiples, so that the orders differ. The first two are rising and
// falling order.
constexpr std::array<std::uint64_t, 7> kStrides = {1,       1048575, 1296121, 803749,
                                                   1733111, 1013399, 420911};

}  // namespace

struct PlacementOrders::Order {
  Order(const sim::AllocatorOptions& options, std::uint64_t stride)
      : addresses(stride), allocator(options, addresses) {}

  ScatteredAddresses addresses;
  sim::Allocator allocator;
  std::uint64_t peak_reserved_bytes = 0;
};

PlacementOrders::PlacementOrders(const sim::AllocatorOptions& options) {
  sim::AllocatorOptions without_limit = options;
  without_limit.limit = {};
  orders_.reserve(kStrides.size());
  for (const std::uint64_t stride : kStrides)
    orders_.push_back(std::make_unique<Order>(without_limit, stride));
}

PlacementOrders::~PlacementOrders() = default;

void PlacementOrders::add_pool(sim::PoolKind kind) {
  for (const auto& order : orders_) order->allocator.add_pool(kind);
}

void PlacementOrders::add_stream_pool(const sim::StreamPoolKey& key) {
  for (const auto& order : orders_) order->allocator.add_stream_pool(key);
}

void PlacementOrders::allocate(AllocationId id, std::uint64_t size_bytes,
                               sim::StreamPoolId stream_pool) {
  for (const auto& order : orders_) {
    order->allocator.allocate(id, size_bytes, stream_pool);
    order->peak_reserved_bytes =
        std::max(order->peak_reserved_bytes, order->allocator.reserved_bytes());
  }
}

void PlacementOrders::free(AllocationId id) {
  for (const auto& order : orders_) order->allocator.free(id);
}

void PlacementOrders::empty_cache() {
  for (const auto& order : orders_) order->allocator.empty_cache();
}

void PlacementOrders::release_pool(sim::PoolIndex pool) {
  for (const auto& order : orders_) order->allocator.release_pool(pool);
}

void PlacementOrders::empty_pool(sim::PoolIndex pool) {
  for (const auto& order : orders_) order->allocator.empty_pool(pool);
}

std::vector<std::uint64_t> PlacementOrders::peak_reserved_bytes() const {
  std::vector<std::uint64_t> peaks;
  peaks.reserve(orders_.size());
  for (const auto& order : orders_) peaks.push_back(order->peak_reserved_bytes);
  return peaks;
}

}  // namespace gpumemprof::estimate
