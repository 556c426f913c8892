// GrowingView: a View of recordings that programs may still be writing. It reads those that have
// grown again, in a thread of its own, and replaces the View as a whole.
//
// Every View has a number, its generation. The page names the one it draws, so that answers belong
// together: tiles of two generations divide the run differently. The last two are kept.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "session/view.h"

namespace gpumemprof {

class GrowingView {
 public:
  explicit GrowingView(std::vector<ViewedRun> runs);
  GrowingView(const GrowingView&) = delete;
  GrowingView& operator=(const GrowingView&) = delete;
  ~GrowingView();

  // Prepares the view, and watches the files if one of them has not been closed.
  void start();

  // The View of that generation; the newest if that one is gone, or none is named.
  [[nodiscard]] std::shared_ptr<const View> view(std::optional<std::uint64_t> generation) const;
  // {"generation":3,"files":[{"state":"recording","unchanged_seconds":0}]}: cheap enough to be
  // asked every second. The states are recording, quiet (not closed, but nothing was written
  // lately) and ended.
  [[nodiscard]] std::string state_json() const;

 private:
  struct File {
    ViewedRun run;
    bool is_closed = false;
    std::uint64_t size_bytes = 0;  // when it was last read
    std::chrono::steady_clock::time_point changed;
  };
  void watch(const std::stop_token& stop);
  // Whether one has grown since it was read.
  bool look();
  void read_again();

  mutable std::mutex mutex_;  // guards all that follows
  std::vector<File> files_;
  std::vector<std::uint64_t> seen_bytes_;  // when they were last looked at
  std::uint64_t generation_ = 0;
  std::shared_ptr<View> view_;
  std::shared_ptr<const View> previous_;
  std::condition_variable_any wakes_;
  std::jthread watching_;  // last: it ends before what it works on is destroyed
};

}  // namespace gpumemprof
