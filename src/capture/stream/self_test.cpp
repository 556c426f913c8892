#include "capture/stream/self_test.h"

namespace gpumemprof::capture {
namespace {

template <typename Visit>
void for_each_allocated(const std::vector<ListedSegment>& segments, const Visit& visit) {
  for (const ListedSegment& segment : segments) {
    if (segment.device < 0 || segment.device >= kCpuDevice) continue;
    for (const ListedBlock& block : segment.blocks) {
      if (block.state == BlockStateKind::active_allocated)
        visit(static_cast<std::uint8_t>(segment.device), block);
    }
  }
}

}  // namespace

SelfTest::Blocks& SelfTest::of(std::vector<Blocks>& devices, std::uint8_t device) {
  if (devices.size() <= device) devices.resize(device + std::size_t{1});
  return devices[device];
}

void SelfTest::begin(const std::vector<ListedSegment>& segments) {
  for_each_allocated(segments, [&](std::uint8_t device, const ListedBlock& block) {
    of(allocated_, device).insert_or_assign(block.address, block.requested_bytes);
  });
  has_begun_ = true;
  for (const ReportedEvent& event : early_) apply(event);
  early_.clear();
}

void SelfTest::take(std::uint8_t device, Action action, std::uint64_t address,
                    std::uint64_t size_bytes) {
  if (action != Action::alloc && action != Action::free_requested) return;
  const ReportedEvent event{device, action, address, size_bytes};
  has_begun_ ? apply(event) : early_.push_back(event);
}

void SelfTest::apply(const ReportedEvent& event) {
  Blocks& blocks = of(allocated_, event.device);
  if (event.action == Action::alloc) {
    blocks.insert_or_assign(event.address, event.size_bytes);
  } else {
    blocks.erase(event.address);
  }
}

void SelfTest::freeze(std::uint8_t device) { of(frozen_, device) = of(allocated_, device); }

std::optional<std::string> SelfTest::contradiction(
    const std::vector<ListedSegment>& segments) const {
  std::size_t reported = 0;
  for (const Blocks& blocks : frozen_) reported += blocks.size();
  std::size_t listed = 0;
  std::size_t differing = 0;
  for_each_allocated(segments, [&](std::uint8_t device, const ListedBlock& block) {
    ++listed;
    const std::uint64_t* size =
        device < frozen_.size() ? frozen_[device].find(block.address) : nullptr;
    if (size == nullptr || *size != block.requested_bytes) ++differing;
  });
  if (differing == 0 && reported == listed) return std::nullopt;
  return "torch lists " + std::to_string(listed) + " allocated blocks, its tracker reported " +
         std::to_string(reported) + ", and " + std::to_string(differing) + " of them differ";
}

}  // namespace gpumemprof::capture
