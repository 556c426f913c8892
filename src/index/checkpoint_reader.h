// CheckpointReader: the checkpoints of an index file, which may be anything.
#pragma once

#include <string>
#include <vector>

#include "index/index_file.h"

namespace gpumemprof {

Error damaged_index(const std::string& recording);

// May be used from one thread at a time.
class CheckpointReader {
 public:
  // The file must outlive it.
  CheckpointReader(IndexFile& file, std::string recording)
      : file_(file), recording_(std::move(recording)) {}

  // Of a device of the file: the state at one of its checkpoints, without the phases.
  Result<DeviceCheckpoint> state(const IndexedDevice& device, std::size_t number);
  // The phases between the checkpoint before and this one.
  Result<std::vector<PhaseSpan>> spans_before(const IndexedDevice& device, std::size_t number);

 private:
  // A checkpoint that others refer to: a whole one, or a middle; valid until the next call.
  const DeviceCheckpoint* base(const IndexedDevice& device, std::size_t number);
  const DeviceCheckpoint* whole(std::size_t number, StoredCheckpoint& stored);
  static bool is_of(const std::optional<DeviceCheckpoint>& known, const IndexedDevice& device,
                    std::size_t number) {
    return known && known->device == device.device && known->number == number;
  }
  std::optional<StoredCheckpoint> stored(const IndexedDevice& device, std::size_t number);

  IndexFile& file_;
  std::string recording_;
  // The last ones: their neighbours refer to them.
  std::optional<DeviceCheckpoint> whole_;
  std::optional<DeviceCheckpoint> middle_;
};

}  // namespace gpumemprof
