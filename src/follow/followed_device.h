// FollowedDevice: the memory of one device of a run that is read as it grows.
//
// Keeps what is live, and sums; nothing that grows with the number of events.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "analysis/code/code_kind.h"
#include "follow/kept_site.h"
#include "follow/live_report.h"
#include "follow/live_sites.h"
#include "follow/live_steps.h"
#include "replay/lifetime_listener.h"
#include "replay/player.h"
#include "replay/poolless.h"
#include "store/store.h"

namespace gpumemprof {

class FollowedDevice final : private LifetimeListener {
 public:
  // The store holds what events refer to, but no events; it must outlive this.
  FollowedDevice(DeviceIndex device, const Store& store);
  ~FollowedDevice() override;

  void add_start(const SegmentState& segment, std::span<const BlockState> blocks);
  void add(const EventColumns& events);
  void add(const LostEvents& lost);
  void add(const DeviceSample& sample) { samples_.push_back(sample); }
  void add(const Labelling& labelling) { labellings_.push_back(labelling); }
  void add(const PhaseMark& mark) { marks_.push_back(mark); }

  // Whether the program has used the device, as far as it was recorded.
  [[nodiscard]] bool has_memory() const {
    return events_ > 0 || !record_.start_state.segments.empty();
  }
  // The recent peaks start again.
  LiveDevice report(std::size_t most_sites, std::size_t most_steps);
  // The sites whose memory grows or has accumulated, most bytes first.
  [[nodiscard]] std::vector<KeptSite> kept_sites(const KeptSitesWanted& wanted) const;

 private:
  // What is known about a live allocation beyond its row.
  struct Detail {
    std::uint32_t site = 0;
    MemorySource source = MemorySource::unknown;
    bool is_labelled = false;
    bool is_live = false;
  };

  void allocated(AllocationId row) override;
  void freed(AllocationId row) override;
  void begin();
  void play(const EventColumns& events, std::size_t begin, std::size_t end);
  // What marks and labels say before the event of this row.
  void apply_until(std::uint64_t row);
  [[nodiscard]] std::uint64_t next_position() const;
  void apply(const Labelling& labelling);
  void apply(const DeviceSample& sample);
  void report_card(LiveDevice& report) const;
  [[nodiscard]] MemorySource guess(StackId stack);
  [[nodiscard]] AllocationId live_at(std::uint64_t address) const;
  [[nodiscard]] MemoryTotals totals() const;
  void set_source(std::uint32_t row, MemorySource source, bool is_labelled);

  const Store& store_;
  DeviceRecord record_;  // its tables hold what is live; its events stay empty
  std::unique_ptr<Player> player_;
  std::unique_ptr<PoollessPlayer> poolless_;
  const EventColumns* playing_ = nullptr;
  std::uint64_t events_ = 0;
  std::uint64_t lost_events_ = 0;
  std::uint64_t step_start_event_ = 0;  // the first of the step that is running
  std::uint64_t contradictions_ = 0;
  std::int64_t last_time_ns_ = kUnknownTime;
  std::optional<DeviceSample> sample_;
  std::uint64_t reserved_at_sample_ = 0;

  std::vector<Detail> details_;  // by row
  std::vector<CodeKind> kinds_;  // by stack
  LiveSites sites_;
  LiveSteps steps_;
  std::deque<Labelling> labellings_;  // that are still to come
  std::deque<PhaseMark> marks_;
  std::deque<DeviceSample> samples_;
  std::uint64_t allocated_bytes_ = 0;
  std::uint64_t recent_peak_bytes_ = 0;
  std::array<std::uint64_t, kMemorySourceCount> by_source_{};
  std::uint64_t labelled_bytes_ = 0;
};

}  // namespace gpumemprof
