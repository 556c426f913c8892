// FollowedDevice: the memory of one device of a run that is read as it grows.
//
// Keeps what is live, and sums; nothing that grows with the number of events. Every event is played
// at once. A recorder writes labels, marks and samples after the events they belong to, with each
// flush: labels then name what is still live of what they meant, and what marks divide, the figures
// of steps, follows from the changes that are kept until the flush has ended.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "analysis/code/code_kind.h"
#include "follow/kept_site.h"
#include "follow/live_labels.h"
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
  // The store holds what events refer to, but no events and no labels; both must outlive this.
  FollowedDevice(DeviceIndex device, const Store& store, LiveLabels& labels);
  ~FollowedDevice() override;

  void add_start(const SegmentState& segment, std::span<const BlockState> blocks);
  void add(const EventColumns& events);
  void add(const LostEvents& lost);
  void add(const DeviceSample& sample);
  void add(const Labelling& labelling);
  void add(const PhaseMark& mark);
  // No mark and no sample will come for a moment before what has been played by now.
  void settle() { settle(events_); }

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
    std::optional<LabelKind> label;
    bool is_live = false;
  };

  void allocated(AllocationId row) override;
  void freed(AllocationId row) override;
  void begin();
  [[nodiscard]] bool has_begun() const { return player_ != nullptr || poolless_ != nullptr; }
  void play(const EventColumns& events, std::size_t begin, std::size_t end);
  // How many of the events, from `begin` on, can be played in one go.
  [[nodiscard]] std::size_t end_of_part(const EventColumns& events, std::size_t begin) const;
  void note_change(std::uint32_t event, std::uint32_t site, std::int64_t bytes);
  void settle(std::uint64_t end);
  // The labels, marks and samples that belong before what has been played.
  void apply_labellings();
  void apply_marks();
  void apply_samples();
  void apply(const Labelling& labelling);
  [[nodiscard]] std::uint64_t reserved_before(std::uint32_t event) const;
  void report_card(LiveDevice& report) const;
  [[nodiscard]] CodeKind kind_of(StackId stack);
  [[nodiscard]] AllocationId live_at(std::uint64_t address) const;
  [[nodiscard]] MemoryTotals totals() const;
  void set_label(std::uint32_t row, LabelKind label);

  const Store& store_;
  LiveLabels& labels_;
  DeviceRecord record_;  // its tables hold what is live; its events stay empty
  std::unique_ptr<Player> player_;
  std::unique_ptr<PoollessPlayer> poolless_;
  const EventColumns* playing_ = nullptr;
  std::uint64_t first_playing_ = 0;  // row of the first of them
  std::uint64_t events_ = 0;         // that were played
  std::uint64_t lost_events_ = 0;
  std::uint64_t step_start_event_ = 0;  // the first of the step that is running
  std::uint64_t contradictions_ = 0;
  std::int64_t last_time_ns_ = kUnknownTime;
  std::optional<DeviceSample> sample_;
  std::uint64_t reserved_at_sample_ = 0;

  // By an event after the last flush that has ended.
  struct Change {
    std::uint32_t event = 0;
    std::uint32_t site = 0;
    std::int64_t bytes = 0;             // of the site
    std::uint64_t allocated_bytes = 0;  // of the device after it
  };
  std::deque<Change> changes_;
  // What was reserved from an event on; the first holds for all before the second.
  std::deque<std::pair<std::uint64_t, std::uint64_t>> reserved_;

  std::vector<Detail> details_;  // by row
  std::vector<CodeKind> kinds_;  // by stack
  LiveSites sites_;
  LiveSteps steps_;
  std::deque<Labelling> labellings_;  // those that were read before their events, like the next two
  std::deque<PhaseMark> marks_;
  std::deque<DeviceSample> samples_;
  std::uint64_t allocated_bytes_ = 0;
  std::uint64_t recent_peak_bytes_ = 0;
  std::array<std::uint64_t, kMemorySourceCount> by_source_{};
  std::uint64_t labelled_bytes_ = 0;
};

}  // namespace gpumemprof
