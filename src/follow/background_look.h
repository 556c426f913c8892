// BackgroundLook: finds the sites that keep memory in a recording of this process, on a thread of
// its own, so that the program neither reads nor waits.
//
// One look at a time; each reads what was written since the last. Its caller's thread may ask for
// the result whenever it likes.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "follow/kept_site.h"

namespace gpumemprof {

class BackgroundLook {
 public:
  // `write_out` makes the recorder write what it has until now; it is called on the thread.
  BackgroundLook(std::string path, std::function<void()> write_out);
  // Waits for a look that is going on.
  ~BackgroundLook();
  BackgroundLook(const BackgroundLook&) = delete;
  BackgroundLook& operator=(const BackgroundLook&) = delete;

  // False: the last one was not taken yet, or there is no thread to be had.
  bool start(const KeptSitesWanted& wanted);
  // What the look has found, once; none if none was started, or it is still going on after this
  // time. Nothing was found if the recording cannot be read.
  std::optional<std::vector<KeptSite>> take(std::chrono::milliseconds most);
  // The same on the caller's thread; a look that is going on is awaited and its result forgotten.
  std::vector<KeptSite> look_now(const KeptSitesWanted& wanted);
  // In a forked child, which has no such thread: nothing is awaited any more.
  void abandon() { is_abandoned_ = true; }

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;  // with the thread
  bool is_started_ = false;
  bool is_abandoned_ = false;
};

}  // namespace gpumemprof
