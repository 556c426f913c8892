// DevicePass: one pass over a device's events, in order, that shows them window by window.
//
// A window is a stretch of the run that ends where a step begins, if it can. When it is shown, some
// of what follows it has been read too: that says what becomes of the memory it leaves. Then all
// but the recent events are forgotten. Memory: one window, and what is live.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <span>

#include "replay/player.h"
#include "replay/poolless.h"
#include "windows/kept_run.h"

namespace gpumemprof {

struct WindowSizes {
  std::uint32_t events = 1'500'000;  // of a window, about
  [[nodiscard]] std::uint32_t head() const { return least_look(); }
  // Enough for several steps of most programs; all of it is looked at again with every window.
  [[nodiscard]] std::uint32_t least_look() const { return std::min(events / 8, 125'000U); }
};

// Events [first, end) of the run.
struct Window {
  std::uint32_t first = 0;
  std::uint32_t end = 0;
  bool is_last = false;
};

class WindowVisitor {
 public:
  WindowVisitor() = default;
  WindowVisitor(const WindowVisitor&) = delete;
  WindowVisitor& operator=(const WindowVisitor&) = delete;
  virtual ~WindowVisitor() = default;

  virtual void visit(KeptRun& run, const Window& window) = 0;
  // Rows that die at this event or later are still needed.
  [[nodiscard]] virtual std::uint32_t needed_from() const { return kNoEvent; }
  // Events that are never forgotten.
  [[nodiscard]] virtual std::span<const std::uint32_t> always_kept() const { return {}; }
};

class DevicePass {
 public:
  // The store holds what events refer to, but no events; it and the visitor must outlive this.
  DevicePass(DeviceIndex device, const Store& store, WindowSizes sizes, WindowVisitor& visitor,
             std::optional<bool> starts_expandable);

  void add_start(const SegmentState& segment, std::span<const BlockState> blocks);
  void add(const EventColumns& events);
  void add(const LostEvents& lost) { run_.record().lost_events.push_back(lost); }
  void add(const Labelling& labelling);
  void add(const PhaseMark& mark);
  // A recorder writes what it knows about events after the events. Of those before this one, all of
  // it is there now.
  void complete(std::uint32_t before_event);
  // After the last event: shows the rest.
  void finish();

  [[nodiscard]] const KeptRun& run() const { return run_; }
  [[nodiscard]] KeptRun& run() { return run_; }
  // What replay finds over the whole run, after finish().
  [[nodiscard]] DeviceReplay replay() const;
  // Whether the first segment of the run is expandable; none: there is none.
  [[nodiscard]] std::optional<bool> first_segment() const { return first_segment_; }

 private:
  void begin();
  [[nodiscard]] std::uint32_t look() const;
  [[nodiscard]] std::uint32_t cut_after(std::uint32_t target, std::uint32_t last) const;
  void show(const Window& window);
  void note_first_segment(const EventColumns& events);

  const Store& store_;
  WindowSizes sizes_;
  WindowVisitor& visitor_;
  std::optional<bool> starts_expandable_;
  std::optional<bool> first_segment_;
  KeptRun run_;
  std::unique_ptr<Player> player_;
  std::unique_ptr<PoollessPlayer> poolless_;
  bool fits_ = true;             // the start
  std::uint32_t complete_ = 0;   // events of which all is known
  std::uint32_t next_ = 0;       // the first of the next window
  std::uint32_t last_mark_ = 0;  // where the last step ended
  std::uint32_t longest_step_ = 0;
};

}  // namespace gpumemprof
