// A recording of any length, window by window: its events, and the allocations born in each window,
// with their deaths and their sources as the whole run shows them. What writes tables and profiles
// reads it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analysis/completeness/completeness.h"
#include "analysis/sources/sources.h"
#include "base/result.h"
#include "session/formats.h"
#include "session/recording.h"
#include "store/store.h"
#include "windows/windowed_run.h"

namespace gpumemprof {

// Valid during the call that shows it. Rows, events and columns are those of `record`, which holds
// some more than the window; the other numbers are those of the run.
struct TableWindow {
  const Store& store;
  const DeviceRecord& record;
  const DeviceReplay& replay;           // of the whole run
  const std::vector<PhaseSpan>& spans;  // by the record's events
  std::uint32_t first_number = 0;       // of the window's first event, in the run
  bool is_last = false;
  std::size_t first_event = 0;  // of the window, in the record
  std::size_t events = 0;
  std::vector<std::uint32_t> rows = {};  // of allocations born in the window
  // For every row of the record:
  std::vector<std::uint32_t> event_numbers = {};
  std::vector<std::uint32_t> births = {};
  std::vector<std::uint32_t> frees = {};
  std::vector<std::uint32_t> completions = {};
  std::vector<std::uint32_t> steps = {};  // 0: before the first
  // Of the last window: for every segment of the run.
  std::vector<std::uint32_t> segment_births = {};
  std::vector<std::uint32_t> segment_deaths = {};
};

class TabledRun {
 public:
  // Reads a long recording once, in memory that does not grow with it, to survey it. One that is
  // short, or whose state at the start is not known, is read whole.
  static Result<std::unique_ptr<TabledRun>> open(const std::string& path,
                                                 const OpenOptions& options = {});
  // The same, but null where it would have to be read whole.
  static Result<std::unique_ptr<TabledRun>> open_in_windows(const std::string& path,
                                                            const OpenOptions& options = {});
  // The same if the recording is in memory.
  static std::unique_ptr<TabledRun> of(std::shared_ptr<const Recording> recording);

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const Store& store() const;
  // Null if it is read in windows.
  [[nodiscard]] const Recording* whole() const { return whole_.get(); }
  struct Device {
    DeviceIndex device = 0;
    std::uint32_t events = 0;
    const DeviceReplay& replay;
    const std::vector<LostEvents>& lost_events;
    std::int64_t first_time_ns = kUnknownTime;
  };
  // In order of device number.
  [[nodiscard]] std::vector<Device> devices() const;
  [[nodiscard]] Completeness completeness() const;
  // A sentence where the file was cut off; nothing where it is complete.
  [[nodiscard]] std::optional<Error> cut() const { return cut_in(store().origin(), path_); }

  // Shows each window once, those of one device in order; of a long recording, reads it again. Call
  // it once.
  using Show = std::function<void(const TableWindow& window)>;
  Status show(const Show& show);

 private:
  void show_whole(const Show& show) const;
  Status show_windowed(const Show& show);

  std::string path_;
  std::shared_ptr<const Recording> whole_;
  std::unique_ptr<WindowedRun> windowed_;
};

}  // namespace gpumemprof
