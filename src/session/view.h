// View: recordings opened for viewing. Indexes are built once, and every question of the viewer's
// page is answered from them as JSON.
//
// Safe to query from any number of threads.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "analysis/timeline/spans.h"
#include "analysis/timeline/timeline.h"
#include "report/view/questions.h"
#include "report/view/view_json.h"
#include "session/recording.h"

namespace gpumemprof {

// One device of one recording, with its indexes.
class DeviceView {
 public:
  DeviceView(std::shared_ptr<const Recording> recording, std::size_t index);
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
  Timeline timeline_;
  LiveRows live_;
  bool are_sources_known_ = false;  // for more than half the bytes
  mutable std::array<std::once_flag, std::size(kGroupBys)> is_grouped_;
  mutable std::array<std::unique_ptr<Grouped>, std::size(kGroupBys)> grouped_;
  mutable std::once_flag has_spans_;
  mutable std::unique_ptr<Spans> spans_;
};

class View {
 public:
  // At most this many devices of each recording, those with the highest peaks.
  static constexpr std::size_t kAllDevices = ~std::size_t{0};
  explicit View(std::vector<std::shared_ptr<const Recording>> recordings,
                std::size_t most_devices = kAllDevices);

  // Builds what questions need ahead of time, in a separate thread, the most likely first.
  void prepare_in_background();

  // The answer to any question of the page, as JSON; an Error where it asks for something that does
  // not exist.
  [[nodiscard]] Result<std::string> answer(const view::Question& question) const;
  // For a moment that exists.
  [[nodiscard]] view::MomentFacts facts(DeviceName device, Position position) const;

  [[nodiscard]] std::size_t file_count() const { return files_.size(); }
  [[nodiscard]] std::size_t device_count(std::size_t file) const {
    return files_[file].devices.size();
  }
  [[nodiscard]] Result<const DeviceView*> device(DeviceName name) const;
  // In that file, because of most_devices.
  [[nodiscard]] std::size_t devices_left_out(std::size_t file) const {
    return files_[file].recording->store().devices().size() - files_[file].devices.size();
  }

 private:
  struct File {
    std::shared_ptr<const Recording> recording;
    std::vector<std::unique_ptr<DeviceView>> devices;
  };
  [[nodiscard]] Result<std::string> answer_to(const view::MetaQuestion& question) const;
  [[nodiscard]] Result<std::string> answer_to(const view::ReportQuestion& question) const;
  [[nodiscard]] Result<std::string> answer_to(const view::GroupsQuestion& question) const;
  [[nodiscard]] Result<std::string> answer_to(const view::TileQuestion& question) const;
  [[nodiscard]] Result<std::string> answer_to(const view::SpansQuestion& question) const;
  [[nodiscard]] Result<std::string> answer_to(const view::OverlaysQuestion& question) const;
  [[nodiscard]] Result<std::string> answer_to(const view::MomentQuestion& question) const;
  [[nodiscard]] Result<std::string> answer_to(const view::GroupBytesQuestion& question) const;
  [[nodiscard]] Result<std::string> answer_to(const view::FlameQuestion& question) const;
  [[nodiscard]] Result<std::string> answer_to(const view::SegmentsQuestion& question) const;
  [[nodiscard]] Result<std::string> answer_to(const view::AllocationsQuestion& question) const;
  [[nodiscard]] Result<std::string> answer_to(const view::AllocationQuestion& question) const;
  [[nodiscard]] Result<std::string> answer_to(const view::BandsQuestion& question) const;
  [[nodiscard]] Result<std::string> answer_to(const view::CompareQuestion& question) const;
  // The device, if it has that position and grouping.
  [[nodiscard]] Result<const DeviceView*> device_at(DeviceName name, Position position) const;
  [[nodiscard]] Result<const DeviceView*> device_by(DeviceName name, GroupBy by) const;

  std::vector<File> files_;
  std::jthread preparing_;  // last: it ends before the data it works on is destroyed
};

}  // namespace gpumemprof
