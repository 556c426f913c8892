// LongDevice: one device of a run that is too long for memory, opened for viewing.
//
// What concerns the whole run is answered from the index: the timeline from the pyramid, steps and
// phases from the checkpoints. What concerns a moment or a short range is answered from stretches
// of the recording, which are read when they are asked for.
//
// Safe to query from any number of threads.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "analysis/range/singles.h"
#include "analysis/timeline/overlays.h"
#include "analysis/timeline/pyramid_timeline.h"
#include "session/long_view/long_lived.h"
#include "session/long_view/stretch_cache.h"

namespace gpumemprof {

class LongDevice final : public RunGroups {
 public:
  // A longer range is not listed.
  static constexpr std::uint32_t kMostListedEvents = 2'000'000;

  // What the devices of a run share; it outlives them.
  struct Run {
    const RunIndex* index = nullptr;
    std::mutex* reading = nullptr;  // held while the index is read
    StretchCache* stretches = nullptr;
  };
  static Result<std::unique_ptr<LongDevice>> open(const Run& run, const DeviceOverview& overview);

  [[nodiscard]] const DeviceOverview& overview() const { return overview_; }
  [[nodiscard]] const Store& store() const { return run_.index->store(); }
  [[nodiscard]] const TimelineScale& scale() const { return timeline_->scale(); }
  [[nodiscard]] Position last_position() const {
    return static_cast<Position>(scale().positions - 1);
  }
  // By source first: that is what the index divides the whole run into.
  [[nodiscard]] std::vector<GroupBy> group_bys() const;
  [[nodiscard]] std::vector<FlameBy> flame_bys() const;
  // By source, all that the run has. Otherwise those that hold most around the peak, the rest, and
  // one for where the timeline comes from the index, which does not divide it.
  [[nodiscard]] const std::vector<Group>& groups(GroupBy by) const override;

  // An Error if there is no such tile.
  [[nodiscard]] Result<Tile> tile(GroupBy by, const TileAddress& address) const;
  [[nodiscard]] Result<const Spans*> spans() const;
  [[nodiscard]] Result<TimelineOverlays> overlays() const;

  // The stretch that holds the position, which exists.
  [[nodiscard]] Result<StretchPtr> at(Position position) const;
  // One that holds the positions [from, to); an Error if that is too much to be read.
  [[nodiscard]] Result<StretchPtr> over(Position from, Position to) const;
  // What lies between two checkpoints that follow each other, for whoever reads one after the
  // other: it is read anew and not kept.
  [[nodiscard]] Result<StretchPtr> read(std::size_t interval) const;
  // The number of the one that holds the position.
  [[nodiscard]] std::size_t interval_of(Position position) const;
  // The stretch in which an allocation is made, and the one in which it is freed, which may be the
  // same; none: it is never freed.
  struct Lifetime {
    StretchPtr birth;
    AllocationId row;
    StretchPtr death;
    AllocationId death_row;
  };
  // An Error if there is none with this number.
  [[nodiscard]] Result<Lifetime> find(std::uint64_t shown_row) const;

  // What is drawn as bands of their own: from the stretches of a short range, all of them; of a
  // longer one, those that outlive checkpoints.
  [[nodiscard]] Result<view::Singles> singles(GroupBy by, const SinglesQuery& query) const;

  // The tile as the index has it, whatever its level; for tests.
  [[nodiscard]] const PyramidTimeline& timeline() const { return *timeline_; }
  // Whether the tile is read from stretches.
  [[nodiscard]] bool is_exact(const TileAddress& address) const;

 private:
  LongDevice(const Run& run, const DeviceOverview& overview) : run_(run), overview_(overview) {}

  // Between two checkpoints, by number.
  struct Interval {
    std::size_t first = 0;
    std::size_t last = 0;  // included
  };
  [[nodiscard]] const std::vector<std::uint32_t>& checkpoints() const {
    return run_.index->checkpoints(overview_.device);
  }
  [[nodiscard]] Interval intervals_of(const TileAddress& address) const;
  [[nodiscard]] PyramidTimeline::Range positions_of(const TileAddress& address) const;
  [[nodiscard]] Result<StretchPtr> open_stretch(std::size_t first, std::size_t last) const;
  [[nodiscard]] Result<StretchPtr> read_between(std::size_t first, std::size_t last) const;
  // Where the labels of its first steps found memory.
  [[nodiscard]] std::shared_ptr<const LabelledPlaces> places() const;
  Status read_timeline();
  [[nodiscard]] Result<Tile> exact_tile(GroupBy by, const TileAddress& address) const;
  [[nodiscard]] Tile indexed_tile(GroupBy by, const TileAddress& address) const;
  [[nodiscard]] std::vector<Group> choose_groups(GroupBy by) const;
  [[nodiscard]] std::vector<Group> source_groups() const;
  [[nodiscard]] Result<std::vector<PhaseSpan>> read_phases() const;
  [[nodiscard]] Result<const LongLived*> long_lived() const;
  [[nodiscard]] Result<view::Singles> outlined_singles(GroupBy by, const SinglesQuery& query) const;
  [[nodiscard]] Result<bool> is_live_at(std::size_t checkpoint, std::uint64_t shown_row) const;

  Run run_;
  const DeviceOverview& overview_;
  std::unique_ptr<PyramidTimeline> timeline_;
  mutable std::array<std::once_flag, std::size(kGroupBys)> is_grouped_;
  mutable std::array<std::vector<Group>, std::size(kGroupBys)> groups_;
  mutable std::once_flag is_placed_;
  mutable std::shared_ptr<const LabelledPlaces> places_;
  mutable std::mutex spans_mutex_;
  mutable std::unique_ptr<Spans> spans_;
  mutable std::mutex long_lived_mutex_;
  mutable std::unique_ptr<LongLived> long_lived_;
};

}  // namespace gpumemprof
