// What two runs held at their peaks, side by side: in all, by source, by line and by module. Made
// from their reports, so that it holds for recordings of any length.
//
// Lines are the same if file, function and number read the same, where a program's own files are
// taken relative to its main script: two checkouts of one program compare.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analysis/compare/compare.h"
#include "analysis/overview/overview.h"
#include "store/store.h"

namespace gpumemprof {

struct ReportedSide {
  const Overview* overview = nullptr;
  const Store* store = nullptr;
};

struct DeviceComparison {
  // None: this run has no such device.
  struct Side {
    std::string device;
    AskedMoment moment;  // the peak; the end where no history was recorded
    std::uint64_t allocated_bytes = 0;
    std::optional<std::uint64_t> peak_reserved_bytes;
    bool is_exact = false;
  };
  std::string name;  // that of the first, where they differ
  std::optional<Side> first;
  std::optional<Side> second;
  // Largest difference first. By source without counts of blocks.
  std::vector<ComparedGroup> by_source;
  std::vector<ComparedGroup> by_line;
  // Layers of one kind as one, each module without those inside it. None: the two runs identify
  // their modules differently, or neither has any.
  std::optional<std::vector<ComparedGroup>> by_module;

  // Two runs of one device each, which are of different kinds or numbers.
  [[nodiscard]] bool is_across_devices() const {
    return first && second && first->device != second->device;
  }
  [[nodiscard]] bool has_second() const { return second.has_value(); }
  [[nodiscard]] std::uint64_t first_bytes() const { return first ? first->allocated_bytes : 0; }
  [[nodiscard]] std::uint64_t second_bytes() const { return second ? second->allocated_bytes : 0; }
};

// A growth that is still allowed: a share of the first run, or a size.
struct GrowthLimit {
  std::optional<double> percent;
  std::uint64_t bytes = 0;  // where there is no share

  [[nodiscard]] bool is_exceeded(std::uint64_t first_bytes, std::uint64_t second_bytes) const;
};

// What memory allocated outside any module is called.
inline constexpr std::string_view kOutsideModules = "outside any module";

// By name of the device, those of the first run first. Where each run has one device only, these
// two are compared, whatever their names: a program predicted for a GPU and measured on another.
std::vector<DeviceComparison> compare_runs(const ReportedSide& first, const ReportedSide& second);

// Whether the peaks of this run are known: where events are missing, it may have held more.
bool are_peaks_known(const ReportedSide& side);

// Whether a device grew by more than the limit, or exists in the second run only.
bool exceeds(const std::vector<DeviceComparison>& devices, const GrowthLimit& limit);

}  // namespace gpumemprof
