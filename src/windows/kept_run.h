// KeptRun: what is in memory of one device's history while it is read in order: its beginning, the
// events around the window, and of those between them only the births and deaths of allocations
// that are still needed.
//
// Read without the gaps, this is a shorter run, on which every analysis works as it does on a whole
// one. Events have two numbers: in the run, and among those kept.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "store/store.h"
#include "windows/fates.h"

namespace gpumemprof {

class KeptRun {
 public:
  explicit KeptRun(DeviceIndex device) { record_.device = device; }

  // Rows in numbers of the run, unless a LocalView exists.
  [[nodiscard]] DeviceRecord& record() { return record_; }
  [[nodiscard]] const DeviceRecord& record() const { return record_; }

  void append(const EventColumns& events);
  // Events of the run that were appended.
  [[nodiscard]] std::uint32_t events() const { return events_; }
  // The first event from which on all are kept.
  [[nodiscard]] std::uint32_t recent() const { return recent_; }

  // Among those kept: the first event that is not before event `number` of the run.
  [[nodiscard]] std::uint32_t place_of(std::uint32_t number) const {
    if (number >= recent_ && number < events_) return recent_place_ + (number - recent_);
    return number < head_ ? number : place_in_gap(number);
  }
  // After the last: the number of the event that comes next. A block that waits to be freed when
  // the recording begins is dead from event 0 on, even before there is one.
  [[nodiscard]] std::uint32_t number_at(std::size_t place) const {
    return place < numbers_.size() ? numbers_[place] : events_;
  }

  // Forgets events [head, begin) but for the births and deaths of the allocations that live on or
  // are older than `head`, and those of `always`. `keep_rows` tells the player.
  using KeepRows = std::function<void(const std::vector<std::uint32_t>& kept)>;
  void condense(std::uint32_t head, std::uint32_t begin, std::span<const std::uint32_t> always,
                const KeepRows& keep_rows);

  // Names an allocation for its whole life: by its birth, or by its place in the start.
  [[nodiscard]] std::uint64_t key_of(std::size_t row) const {
    const std::uint32_t birth = record_.allocations.alloc_event[row];
    return birth == kNoEvent ? start_key(row) : birth;
  }
  [[nodiscard]] static std::uint64_t start_key(std::size_t row) {
    return (std::uint64_t{1} << 32U) + row;
  }

 private:
  friend class LocalView;

  [[nodiscard]] std::uint32_t place_in_gap(std::uint32_t number) const;
  void keep_events(const std::vector<std::uint32_t>& places, std::uint32_t first,
                   std::uint32_t end);
  void keep_positions(std::uint32_t head, std::uint32_t begin);

  DeviceRecord record_;
  Column<std::uint32_t> numbers_;  // of the events that are kept
  std::uint32_t events_ = 0;
  std::uint32_t head_ = 0;  // all events before this one are kept
  std::uint32_t recent_ = 0;
  std::uint32_t recent_place_ = 0;
  // Of the last view: pages that were written before cost much less than new ones.
  std::array<Column<std::uint32_t>, 5> spare_;
};

// While it exists, the record is a run of its own: rows, segments, labellings and marks are
// numbered by the events that are kept. With fates, what is live has its death, and the events of
// those deaths follow the last one. So do the landmarks, events of the run that are not read yet:
// nothing is known of them but their numbers.
class LocalView {
 public:
  explicit LocalView(KeptRun& run) : LocalView(run, nullptr, {}) {}
  LocalView(KeptRun& run, FateReader* fates, std::span<const std::uint32_t> landmarks);
  LocalView(const LocalView&) = delete;
  LocalView& operator=(const LocalView&) = delete;
  ~LocalView();

  [[nodiscard]] const DeviceRecord& record() const { return run_.record_; }
  [[nodiscard]] DeviceRecord& record() { return run_.record_; }
  // In numbers of the run.
  [[nodiscard]] std::uint32_t birth(std::size_t row) const { return births_[row]; }
  [[nodiscard]] std::uint32_t death(std::size_t row) const { return deaths_[row]; }
  [[nodiscard]] std::uint32_t completion(std::size_t row) const { return completions_[row]; }
  // What becomes of an allocation later; null: nothing, or it is not known.
  [[nodiscard]] const Fate* fate(std::size_t row) const {
    if (fates_ == nullptr) return nullptr;
    return fates_->find(births_[row] == kNoEvent ? KeptRun::start_key(row) : births_[row]);
  }
  [[nodiscard]] std::uint32_t segment_birth(std::size_t row) const { return segment_births_[row]; }
  [[nodiscard]] std::uint32_t segment_death(std::size_t row) const { return segment_deaths_[row]; }

 private:
  void add_later(FateReader& fates, std::span<const std::uint32_t> landmarks);
  void add_landmark(std::uint32_t number);
  void swap_all();
  void swap_spare();

  KeptRun& run_;
  const FateReader* fates_;
  std::size_t events_ = 0;  // without those of fates
  // The other numbers: local ones until they are swapped in.
  Column<std::uint32_t> births_;
  Column<std::uint32_t> deaths_;
  Column<std::uint32_t> completions_;
  Column<std::uint32_t> segment_births_;
  Column<std::uint32_t> segment_deaths_;
  std::vector<Labelling> labellings_;
  std::vector<PhaseMark> marks_;
};

}  // namespace gpumemprof
