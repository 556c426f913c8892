#include "index/checkpoint_reader.h"

#include "index/run_index.h"

namespace gpumemprof {

Error damaged_index(const std::string& recording) {
  return {ErrorCode::bad_input, "the index of the recording is damaged", index_path(recording),
          "delete it: it is made again"};
}

std::optional<StoredCheckpoint> CheckpointReader::stored(const IndexedDevice& device,
                                                         std::size_t number) {
  std::optional<StoredCheckpoint> stored = file_.read<StoredCheckpoint>(device.states[number]);
  if (stored && (stored->device != device.device || stored->number != number ||
                 stored->event != device.checkpoints[number]))
    stored.reset();
  return stored;
}

const DeviceCheckpoint* CheckpointReader::whole(std::size_t number, StoredCheckpoint& stored) {
  whole_.reset();
  if (stored.base != number || !from_stored(stored, nullptr, whole_.emplace())) whole_.reset();
  return whole_ ? &*whole_ : nullptr;
}

const DeviceCheckpoint* CheckpointReader::base(const IndexedDevice& device, std::size_t number) {
  if (is_of(whole_, device, number)) return &*whole_;
  if (is_of(middle_, device, number)) return &*middle_;
  std::optional<StoredCheckpoint> found = stored(device, number);
  if (!found) return nullptr;
  if (found->base == number) return whole(number, *found);
  // The base of a middle is whole: a chain could be endless.
  const std::uint32_t below = found->base;
  if (below > number) return nullptr;
  if (!is_of(whole_, device, below)) {
    std::optional<StoredCheckpoint> unchanged = stored(device, below);
    if (!unchanged || whole(below, *unchanged) == nullptr) return nullptr;
  }
  if (!from_stored(*found, &*whole_, middle_.emplace())) middle_.reset();
  return middle_ ? &*middle_ : nullptr;
}

Result<DeviceCheckpoint> CheckpointReader::state(const IndexedDevice& device, std::size_t number) {
  if (is_of(whole_, device, number)) return *whole_;
  if (is_of(middle_, device, number)) return *middle_;
  std::optional<StoredCheckpoint> changed = stored(device, number);
  if (!changed) return damaged_index(recording_);
  DeviceCheckpoint found;
  const DeviceCheckpoint* unchanged = nullptr;
  if (changed->base != number) {
    if (changed->base > number) return damaged_index(recording_);
    unchanged = base(device, changed->base);
    if (unchanged == nullptr) return damaged_index(recording_);
  }
  if (!from_stored(*changed, unchanged, found)) return damaged_index(recording_);
  return found;
}

Result<std::vector<PhaseSpan>> CheckpointReader::spans_before(const IndexedDevice& device,
                                                              std::size_t number) {
  std::optional<StoredSpans> spans = file_.read<StoredSpans>(device.spans[number]);
  if (!spans) return damaged_index(recording_);
  return from_stored(std::move(*spans));
}

}  // namespace gpumemprof
