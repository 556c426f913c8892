// LiveDevice: what is live on one device while it is recorded, and the figures of the chapter and
// of the step that are being recorded.
//
// Events are played as every reader plays them (replay/player.h), so that the state at the start of
// a chapter is the state that its readers would have found. Memory grows with what is live, not
// with the run. Ids are those of the stack mirror and of LiveMemory. For the drain thread alone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "event/chapter_figures.h"
#include "event/event.h"
#include "event/label.h"
#include "replay/lifetime_listener.h"
#include "replay/player.h"
#include "replay/poolless.h"
#include "store/store.h"

namespace gpumemprof::capture {

// The most and the least allocated in some part of the run.
struct Extremes {
  std::uint64_t peak_bytes = 0;
  std::uint64_t floor_bytes = 0;
  std::uint64_t events = 0;
  std::uint64_t reserved_bytes = 0;  // the most

  void begin(std::uint64_t bytes, std::uint64_t reserved) { *this = {bytes, bytes, 0, reserved}; }
  void note(std::uint64_t bytes) {
    peak_bytes = std::max(peak_bytes, bytes);
    floor_bytes = std::min(floor_bytes, bytes);
  }
  void join(const Extremes& next) {
    peak_bytes = std::max(peak_bytes, next.peak_bytes);
    floor_bytes = std::min(floor_bytes, next.floor_bytes);
    events += next.events;
    reserved_bytes = std::max(reserved_bytes, next.reserved_bytes);
  }
};

class LiveDevice final : private LifetimeListener {
 public:
  // What is known about a live allocation beyond its row.
  struct Detail {
    std::int64_t time_ns = kUnknownTime;
    StackId forward_stack;
    std::uint32_t module = kNoModule;
    std::uint16_t tag = 0;
    bool is_labelled = false;
    LabelKind label = LabelKind::input;
    StringId name;  // of the label
  };

  // The settings must outlive this, and may change.
  LiveDevice(const AllocatorSettings& settings, bool has_pool);
  ~LiveDevice() override = default;

  // What was live before the first event; events wait until it is known.
  void begin(ListedState start);
  [[nodiscard]] bool has_begun() const { return has_begun_; }
  // An event; `tag` is its user_metadata.
  void take(const Event& event, std::uint16_t tag) {
    events_.push_back(event);
    tags_.push_back(tag);
    if (events_.size() >= kMostWaiting) play();
  }
  // Plays what is waiting.
  void play();
  void label(std::uint64_t address, LabelKind kind, StringId name);

  void mark(PhaseMark::Kind kind, std::uint32_t number);
  // Of the chapter that ends here; the next one begins.
  ChapterFigures::Device end_chapter(DeviceIndex index);
  [[nodiscard]] std::vector<StepSummary> take_steps() { return std::exchange(steps_, {}); }
  [[nodiscard]] std::uint64_t failures() const { return failures_; }
  [[nodiscard]] std::uint64_t retries() const { return retries_; }

  // All of it as it is now; call play() first.
  [[nodiscard]] ListedState listed() const;
  // For a block of listed() that is in use; null if there is none at this address.
  [[nodiscard]] const Detail* detail(std::uint64_t address) const;
  // Every name is looked up again: the interner is about to be replaced.
  template <typename Rename>
  void rename(const Rename& renamed) {
    for (Detail& detail : details_)
      detail.name = detail.is_labelled ? renamed(detail.name) : StringId();
  }
  // Nothing contradicted the state.
  [[nodiscard]] bool is_exact() const;

 private:
  static constexpr std::size_t kMostWaiting = 8'192;

  void allocated(AllocationId row) override;
  void freed(AllocationId row) override;
  void count_rare(std::size_t index);
  [[nodiscard]] AllocationId live_at(std::uint64_t address) const;
  void end_stretch();
  void end_step();

  const AllocatorSettings& settings_;
  bool has_pool_;
  bool has_begun_ = false;
  bool has_fitted_ = true;
  DeviceRecord record_;  // its tables hold what is live; its events stay empty
  std::unique_ptr<Player> player_;
  std::unique_ptr<PoollessPlayer> poolless_;
  EventColumns events_;  // waiting to be played
  std::vector<std::uint16_t> tags_;
  std::uint32_t first_row_ = 0;  // of them
  std::vector<Detail> details_;  // by row

  std::uint64_t allocated_bytes_ = 0;
  Extremes chapter_;
  Extremes current_;  // since the last mark
  Extremes step_;     // the stretches of this step before that
  bool has_stretch_ = false;
  bool has_own_marks_ = false;  // the program marks its steps
  std::uint32_t step_count_ = 0;
  std::vector<std::uint32_t> stepped_;  // the optimizers that stepped in this step
  std::vector<StepSummary> steps_;      // that ended in this chapter
  Action last_action_ = Action::other;
  std::uint64_t failures_ = 0;
  std::uint64_t retries_ = 0;
};

}  // namespace gpumemprof::capture
