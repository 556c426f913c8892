#include "session/long_view/long_run.h"

#include <algorithm>

#include "index/index_maker.h"

namespace gpumemprof {
namespace {

// Those with the highest peaks, in their own order.
std::vector<const DeviceOverview*> highest(const Overview& overview, std::size_t most) {
  std::vector<const DeviceOverview*> chosen;
  for (const DeviceOverview& device : overview.devices) chosen.push_back(&device);
  if (chosen.size() <= most) return chosen;
  std::ranges::stable_sort(chosen, std::ranges::greater(), [](const DeviceOverview* device) {
    return device->replay.peak.allocated_bytes;
  });
  chosen.resize(most);
  std::ranges::sort(chosen);
  return chosen;
}

}  // namespace

Result<std::shared_ptr<const LongRun>> LongRun::open(const std::string& recording,
                                                     const std::string& indexed,
                                                     std::unique_ptr<WorkFolder> folder,
                                                     std::size_t most_devices) {
  const std::shared_ptr<LongRun> run(new LongRun());
  run->path_ = recording;
  run->indexed_path_ = indexed;
  run->folder_ = std::move(folder);
  IndexState state = IndexState::missing;
  run->index_ = RunIndex::open(indexed, state);
  if (run->index_ == nullptr)
    return Error{ErrorCode::bad_input, "the recording changed while it was read", recording,
                 "open it again"};
  run->read_bytes_ = run->index_->recording_bytes();
  run->overview_ = run->index_->at_peak();
  run->overview_.path = recording;
  for (const DeviceOverview* overview : highest(run->overview_, most_devices)) {
    Result<std::unique_ptr<LongDevice>> device =
        LongDevice::open({run->index_.get(), &run->reading_, &run->stretches_}, *overview);
    if (!device) return device.error();
    run->devices_.push_back(std::move(device).value());
  }
  return std::shared_ptr<const LongRun>(run);
}

}  // namespace gpumemprof
