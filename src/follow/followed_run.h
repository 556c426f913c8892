// FollowedRun: a recording that is read while it is written, in memory that does not grow with it.
//
// What has been read counts at once: the figures are as new as the file, which a recorder writes
// every 0.4 s, and those of a recording whose program was killed are those of a report.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/code/whence.h"
#include "event/sinks/forwarding_sink.h"
#include "follow/followed_device.h"
#include "follow/kept_site.h"
#include "follow/live_labels.h"
#include "follow/live_report.h"
#include "store/store.h"
#include "symbols/resolving_sink.h"
#include "trace/follower.h"

namespace gpumemprof {

class FollowedRun final : private ForwardingSink {
 public:
  // `allowed_bytes`: raises what reading a file of its size may need.
  static Result<std::unique_ptr<FollowedRun>> open(const std::string& path,
                                                   std::uint64_t allowed_bytes = 0);

  // Reads what was written since the last call, at most about `most_bytes` of the file, and says
  // how the run looks. Fails if the file is damaged, became shorter or was replaced.
  Result<LiveReport> read(std::uint64_t most_bytes, std::size_t most_sites, std::size_t most_steps);
  // How it looks as far as it has been read, for one that can no longer be read.
  LiveReport report(std::size_t most_sites, std::size_t most_steps);
  // Of what was read: the sites whose memory grows or has accumulated, most bytes first, and where
  // some of their blocks are. Call when the file was written to its end.
  std::vector<KeptSite> kept_sites(const KeptSitesWanted& wanted);
  // What is kept: no more for a longer run of the same program.
  [[nodiscard]] std::size_t name_count() const { return store_.strings().size(); }
  [[nodiscard]] std::size_t label_count() const { return labels_.size(); }

 private:
  FollowedRun() : ForwardingSink(store_), stacks_(*this), resolving_(stacks_) {}

  StringId add_string(std::string_view text) override;
  std::uint32_t add_label_set(std::span<const Label> labels) override {
    return labels_.add(labels);
  }
  void add_module(const ModuleLabel&) override { ends_flush_ = true; }
  void add_annotation(const Annotation& annotation) override;

  void add_events(DeviceIndex index, EventColumns&& events) override;
  void add_segment(StateEdge edge, const SegmentState& segment,
                   std::span<const BlockState> blocks) override {
    if (edge == StateEdge::start) device(segment.device).add_start(segment, blocks);
  }
  void add_lost_events(const LostEvents& lost) override {
    ends_flush_ = true;
    device(lost.device).add(lost);
  }
  void add_sample(const DeviceSample& sample) override {
    ends_flush_ = true;
    device(sample.device).add(sample);
  }
  void add_labelling(const Labelling& labelling) override {
    ends_flush_ = true;
    device(labelling.device).add(labelling);
  }
  void add_phase_mark(const PhaseMark& mark) override {
    ends_flush_ = true;
    device(mark.device).add(mark);
  }

  FollowedDevice& device(DeviceIndex index);

  std::string path_;
  Store store_;  // what events refer to
  LiveLabels labels_;
  std::map<DeviceIndex, std::unique_ptr<FollowedDevice>> devices_;
  OwnStacksFirst stacks_;
  ResolvingSink resolving_;
  std::unique_ptr<TraceFollower> follower_;
  std::deque<std::string> alerts_;  // the newest first
  bool is_behind_ = false;
  // What the recorder had to say about the events before has been read.
  bool ends_flush_ = false;
};

}  // namespace gpumemprof
