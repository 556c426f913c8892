// What a gpumemprof_recording holds: the recording, and what is computed from it once asked for.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "analysis/completeness/completeness.h"
#include "api/answer.h"
#include "session/recording.h"

namespace gpumemprof::api {

// What answers about one device need, each computed at its first use.
class OpenedDevice {
 public:
  OpenedDevice(const Recording& recording, std::size_t row);

  [[nodiscard]] const DeviceRecord& record() const { return record_; }
  [[nodiscard]] const DeviceReplay& replay() const { return replay_; }
  [[nodiscard]] const std::vector<PhaseSpan>& spans() const { return spans_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] bool has_pool() const { return has_pool_; }
  [[nodiscard]] const DeviceSources& sources() const;
  // One row for each event: the state after it.
  [[nodiscard]] const std::vector<MemoryTotals>& totals() const;
  // Reserved bytes are unknown where there is no pool.
  [[nodiscard]] gpumemprof_totals shown(const MemoryTotals& totals) const;

 private:
  const Store& store_;
  const DeviceRecord& record_;
  const DeviceReplay& replay_;
  const std::vector<PhaseSpan>& spans_;
  std::string name_;
  bool has_pool_ = true;
  mutable std::once_flag sources_once_;
  mutable DeviceSources sources_;
  mutable std::once_flag totals_once_;
  mutable std::vector<MemoryTotals> totals_;
};

gpumemprof_source_bytes shown_sources(const SourceBytes& bytes);

}  // namespace gpumemprof::api

struct gpumemprof_recording {
  explicit gpumemprof_recording(std::shared_ptr<const gpumemprof::Recording> opened);

  // Null: there is no such row.
  [[nodiscard]] const gpumemprof::api::OpenedDevice* device(std::uint32_t row) const {
    return row < devices.size() ? devices[row].get() : nullptr;
  }

  std::shared_ptr<const gpumemprof::Recording> recording;
  std::vector<std::unique_ptr<gpumemprof::api::OpenedDevice>> devices;
  gpumemprof::Completeness completeness;
  std::string cut;  // a sentence
};

namespace gpumemprof::api {

// Null: there is no such row, or no recording.
inline const OpenedDevice* device_of(const gpumemprof_recording* recording, std::uint32_t row) {
  return recording == nullptr ? nullptr : recording->device(row);
}

}  // namespace gpumemprof::api
