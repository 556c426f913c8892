// View: recordings opened for viewing. Indexes are built once, and every question of the viewer's
// page is answered from them as JSON.
//
// Safe to query from any number of threads.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "report/view/questions.h"
#include "report/view/view_json.h"
#include "session/advice/device_advice.h"
#include "session/device_view.h"
#include "session/long_view/viewed_run.h"

namespace gpumemprof {

// What a question about some moments of a device is answered from: all of the device, or a stretch
// of a long run.
struct ViewedPart {
  const DeviceView* view = nullptr;
  StretchPtr stretch;  // null: all of the device

  // A position of the run, as the view has it.
  [[nodiscard]] Position local(Position position) const {
    return stretch == nullptr ? position : stretch->local(position);
  }
  [[nodiscard]] view::AllocationSource source() const {
    if (stretch != nullptr) return stretch->source();
    return {view->store(), view->record(), view->timeline().times()};
  }
};

class View {
 public:
  // At most this many devices of each recording, those with the highest peaks.
  static constexpr std::size_t kAllDevices = ~std::size_t{0};
  explicit View(std::vector<ViewedRun> runs, std::size_t most_devices = kAllDevices);

  // Builds what questions need ahead of time, in a separate thread, the most likely first.
  void prepare_in_background();

  // The answer to any question of the page, as JSON; an Error where it asks for something that does
  // not exist. `work`: who waits for it sees there how far it is; may be null.
  [[nodiscard]] Result<std::string> answer(const view::Question& question,
                                           LongWork* work = nullptr) const;
  // Whether it may take more than a moment.
  [[nodiscard]] bool takes_long(const view::Question& question) const;
  [[nodiscard]] Result<view::MomentFacts> facts(DeviceName device, Position position) const;

  [[nodiscard]] std::size_t file_count() const { return files_.size(); }
  [[nodiscard]] std::size_t device_count(std::size_t file) const {
    return files_[file].devices.size();
  }
  // In that file, because of most_devices.
  [[nodiscard]] std::size_t devices_left_out(std::size_t file) const {
    const ViewedRun& run = files_[file].run;
    const std::size_t all = run.whole != nullptr ? run.whole->store().devices().size()
                                                 : run.indexed->overview().devices.size();
    return all - files_[file].devices.size();
  }

  // About a device that exists.
  [[nodiscard]] std::vector<GroupBy> group_bys(DeviceName name) const;
  [[nodiscard]] std::vector<FlameBy> flame_bys(DeviceName name) const;
  [[nodiscard]] TimelineScale scale(DeviceName name) const;
  [[nodiscard]] bool has(DeviceName name, GroupBy by) const;
  // Null: it is too long for memory.
  [[nodiscard]] const DeviceView* whole(DeviceName name) const { return find(name).whole.get(); }
  // Null: it is not.
  [[nodiscard]] const LongDevice* indexed(DeviceName name) const { return find(name).indexed; }
  // Of a run too long for memory: on the steps around its peak.
  [[nodiscard]] const DeviceAdvice& advice(DeviceName name) const { return *find(name).advice; }
  [[nodiscard]] const DeviceReplay& replay(DeviceName name) const;
  [[nodiscard]] std::string device_name(DeviceName name) const;
  [[nodiscard]] const std::string& path(std::size_t file) const { return files_[file].run.path(); }

 private:
  // One of the two.
  struct Device {
    std::unique_ptr<DeviceView> whole;
    const LongDevice* indexed = nullptr;
    std::unique_ptr<DeviceAdvice> advice;
  };
  // Made once: it takes longer than any other first answer.
  struct ReportAnswer {
    std::once_flag is_made;
    std::optional<Result<std::string>> made;
  };
  struct File {
    ViewedRun run;
    std::vector<Device> devices;
    std::unique_ptr<ReportAnswer> report;
  };
  [[nodiscard]] static Result<std::string> make_report(const ViewedRun& run);
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
  [[nodiscard]] Result<std::string> answer_to(const view::SinglesQuestion& question) const;
  [[nodiscard]] Result<std::string> answer_to(const view::RangeQuestion& question,
                                              LongWork* work) const;
  [[nodiscard]] Result<std::string> answer_to(const view::RangeFlameQuestion& question,
                                              LongWork* work) const;
  [[nodiscard]] Result<std::string> answer_to(const view::SettingsQuestion& question,
                                              LongWork* work) const;
  [[nodiscard]] Result<std::string> answer_to(const view::CompareQuestion& question) const;
  [[nodiscard]] Result<std::string> answer_to(const view::StepsQuestion& question) const;
  [[nodiscard]] Result<std::string> answer_to(const view::AdviceQuestion& question,
                                              LongWork* work) const;
  [[nodiscard]] Result<std::string> answer_to(const view::TogetherQuestion& question,
                                              LongWork* work) const;

  [[nodiscard]] const Device& find(DeviceName name) const {
    return files_[name.file].devices[name.device];
  }
  [[nodiscard]] view::DeviceMeta meta_of(DeviceName name) const;
  [[nodiscard]] Status check(DeviceName name) const;
  [[nodiscard]] Status check(DeviceName name, GroupBy by) const;
  // What the position is in, if the device has it; the same for positions [from, to).
  [[nodiscard]] Result<ViewedPart> part_at(DeviceName name, Position position) const;
  [[nodiscard]] Result<ViewedPart> part_over(DeviceName name, Position from, Position to) const;
  [[nodiscard]] Result<ViewedPart> part_for(DeviceName name, AllocationFilter& filter) const;
  // What holds all events between two positions, if the device has them; null: that is read
  // stretch by stretch.
  [[nodiscard]] Result<ViewedPart> part_between(DeviceName name, Position from, Position to) const;

  std::vector<File> files_;
  std::jthread preparing_;  // last: it ends before the data it works on is destroyed
};

}  // namespace gpumemprof
