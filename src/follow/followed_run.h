// FollowedRun: a recording that is read while it is written, in memory that does not grow with it.
#pragma once

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "event/sinks/forwarding_sink.h"
#include "follow/followed_device.h"
#include "follow/kept_site.h"
#include "follow/live_report.h"
#include "store/store.h"
#include "symbols/resolving_sink.h"
#include "trace/follower.h"

namespace gpumemprof {

class FollowedRun final : private ForwardingSink {
 public:
  static Result<std::unique_ptr<FollowedRun>> open(const std::string& path);

  // Reads what was written since the last call, at most about `most_bytes` of the file, and says
  // how the run looks. Fails if the file is damaged, became shorter or was replaced.
  Result<LiveReport> read(std::uint64_t most_bytes, std::size_t most_sites, std::size_t most_steps);
  // How it looks as far as it has been read, for one that can no longer be read.
  LiveReport report(std::size_t most_sites, std::size_t most_steps);
  // Of what was read: the sites whose memory grows or has accumulated, most bytes first, and where
  // some of their blocks are. Call when the file was written to its end.
  std::vector<KeptSite> kept_sites(const KeptSitesWanted& wanted);

 private:
  FollowedRun() : ForwardingSink(store_), resolving_(*this) {}

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
  void play_waiting();

  std::string path_;
  Store store_;  // what events refer to
  std::map<DeviceIndex, std::unique_ptr<FollowedDevice>> devices_;
  ResolvingSink resolving_;
  std::unique_ptr<TraceFollower> follower_;
  // A recorder writes what it knows about events after the events, with each flush: they wait for
  // it.
  std::vector<std::pair<DeviceIndex, EventColumns>> waiting_;
  std::size_t waiting_events_ = 0;
  std::deque<std::string> alerts_;  // the newest first
  bool is_behind_ = false;
  bool ends_flush_ = false;  // what belongs to the events that wait has been read
  std::chrono::steady_clock::time_point last_growth_;
};

}  // namespace gpumemprof
