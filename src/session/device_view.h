// DeviceView: one device of one recording, opened for viewing.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <vector>

#include "analysis/moment/live_rows.h"
#include "analysis/timeline/spans.h"
#include "analysis/timeline/timeline.h"
#include "session/recording.h"

namespace gpumemprof {

// The groups that the timeline of a long run is divided into, for views of its parts.
class RunGroups {
 public:
  RunGroups() = default;
  RunGroups(const RunGroups&) = delete;
  RunGroups& operator=(const RunGroups&) = delete;
  virtual ~RunGroups() = default;

  [[nodiscard]] virtual const std::vector<Group>& groups(GroupBy by) const = 0;
};

// One device of one recording, with its indexes.
class DeviceView {
 public:
  // `groups`: those of the run, if the recording is a part of it; they outlive it.
  DeviceView(std::shared_ptr<const Recording> recording, std::size_t index,
             const RunGroups* groups = nullptr);
  DeviceView(const DeviceView&) = delete;
  DeviceView& operator=(const DeviceView&) = delete;

  [[nodiscard]] const Store& store() const { return recording_->store(); }
  [[nodiscard]] const DeviceRecord& record() const { return *store().devices()[index_]; }
  [[nodiscard]] const DeviceReplay& replay() const { return recording_->replays()[index_]; }
  [[nodiscard]] const Timeline& timeline() const { return timeline_; }
  [[nodiscard]] const LiveRows& live() const { return live_; }
  [[nodiscard]] const std::vector<PhaseSpan>& phases() const {
    return recording_->phases()[index_];
  }
  // The most informative first: by source, unless most of it is unknown.
  [[nodiscard]] std::vector<GroupBy> group_bys() const;
  [[nodiscard]] bool has(GroupBy by) const;

  // Built on first use.
  struct Grouped {
    Grouped(const DeviceView& view, GroupBy by);
    Grouping grouping;
    GroupSums sums;
  };
  [[nodiscard]] const Grouped& grouped(GroupBy by) const;
  [[nodiscard]] const Spans& spans() const;

 private:
  std::shared_ptr<const Recording> recording_;
  std::size_t index_;
  const RunGroups* run_groups_;
  Timeline timeline_;
  LiveRows live_;
  bool are_sources_known_ = false;  // for more than half the bytes
  mutable std::array<std::once_flag, std::size(kGroupBys)> is_grouped_;
  mutable std::array<std::unique_ptr<Grouped>, std::size(kGroupBys)> grouped_;
  mutable std::once_flag has_spans_;
  mutable std::unique_ptr<Spans> spans_;
};

}  // namespace gpumemprof
