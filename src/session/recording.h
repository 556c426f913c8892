// Recording: any file, or any other source of events, loaded and replayed. The single façade used
// by the command line and the Python package.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "analysis/advice/advice.h"
#include "analysis/failure/failure.h"
#include "analysis/leaks/leaks.h"
#include "analysis/overview/overview.h"
#include "analysis/sources/measured.h"
#include "analysis/sources/sources.h"
#include "analysis/whatif/whatif.h"
#include "base/result.h"
#include "replay/replay.h"
#include "session/formats.h"
#include "store/store.h"

namespace gpumemprof {

// A sentence where a file was cut off; nothing where it is complete.
std::optional<Error> cut_in(const Origin& origin, const std::string& path);

// What the whole run shows about the part of a device that an excerpt holds.
struct KnownPart {
  struct Allocation {
    std::uint32_t event = 0;         // that allocates it, row of the excerpt
    std::uint32_t birth = kNoEvent;  // event of the run; none: older than the run
    MemorySource source = MemorySource::unknown;
    std::uint8_t flags = 0;  // as in AllocationLabels
    StringId name;
  };
  DeviceIndex device = 0;
  ExcerptRange range;
  RunKind kind = RunKind::unknown;
  std::vector<Allocation> allocations;  // in order of `event`
  std::vector<Allocation> at_start;     // of the blocks that the start lists, in their order
  std::vector<PhaseSpan> spans;         // rows of the excerpt, steps of the run
  // Where the labels of the run's first steps found memory; null: the part has all labels, or the
  // run has none.
  std::shared_ptr<const LabelledPlaces> places;
};

class Recording {
 public:
  static Result<std::shared_ptr<const Recording>> open(const std::string& path,
                                                       const OpenOptions& options = {});
  // From anything that delivers events; `name` stands where a path would be shown.
  static Result<std::shared_ptr<const Recording>> from(EventSource& source,
                                                       const std::string& name);
  // The same for a part of a longer run; `known` is asked when all is delivered.
  static Result<std::shared_ptr<const Recording>> from_excerpt(
      EventSource& source, const std::string& name,
      const std::function<std::vector<KnownPart>()>& known);

  // Of a device of an excerpt; null for a whole run.
  [[nodiscard]] const KnownPart* known_part(DeviceIndex device) const;
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const Store& store() const { return store_; }
  // One for each of store().devices().
  [[nodiscard]] const std::vector<DeviceReplay>& replays() const { return replays_; }

  // What the program was doing, one list for each device.
  [[nodiscard]] const std::vector<std::vector<PhaseSpan>>& phases() const { return phases_; }

  [[nodiscard]] Result<Overview> overview(const OverviewOptions& options = {}) const;
  [[nodiscard]] Result<Failure> explain(const FailureOptions& options) const;
  [[nodiscard]] Result<LeaksReport> leaks(const LeaksOptions& options = {}) const;
  [[nodiscard]] Result<WhatIf> whatif(const WhatIfOptions& options) const;
  // `other`: the same program with a different batch size, or nullptr.
  [[nodiscard]] Result<Advice> advise(AdviceOptions options = {},
                                      const Recording* other = nullptr) const;
  // Writes the first of the options' runs as a separate recording.
  [[nodiscard]] Status write_simulated(const WhatIfOptions& options, const std::string& path,
                                       bool overwrites) const;
  // A sentence where the file was cut off; nothing where it is complete.
  [[nodiscard]] std::optional<Error> cut() const { return cut_in(store_.origin(), path_); }

 private:
  Recording() = default;
  static Result<std::shared_ptr<const Recording>> load(
      const std::string& name, const std::function<Status(EventSink&)>& deliver,
      const std::function<std::vector<KnownPart>()>& known = {});
  void take_known(std::vector<KnownPart> known);
  void replay();

  std::string path_;
  Store store_;
  std::vector<DeviceReplay> replays_;
  std::vector<std::vector<PhaseSpan>> phases_;  // by device
  std::vector<KnownPart> known_;
};

}  // namespace gpumemprof
