// Engine: ring, thread slots, emitter and drain of this process, and which recordings are open.
//
// Created with the first recording and never destroyed, since callbacks may hold it; a forked child
// leaves its parent's engine untouched and creates its own. The functions of capture.h are thin
// wrappers around it.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <future>
#include <map>
#include <memory>
#include <mutex>

#include "capture/capture.h"
#include "capture/stacks/thread_slot.h"
#include "capture/stream/drain.h"
#include "capture/stream/emitter.h"
#include "capture/stream/ring.h"

namespace gpumemprof::capture {

class Engine {
 public:
  Engine();
  // The engine of this process; created if there is none.
  static Engine& instance();
  // nullptr when there is none.
  static Engine* existing();

  Result<RecordingNumber> start(const StartOptions& options);
  Summary stop(RecordingNumber recording, const std::string& reason);
  // The process is about to end: closes everything that is open, but waits no longer than a
  // program's exit may take. Does nothing in a child that shares this memory.
  void stop_all(const std::string& reason);
  [[nodiscard]] bool is_recording() const { return newest_recording() != 0; }
  // False in a child that shares this memory.
  [[nodiscard]] bool is_of_this_process() const { return ::getpid() == process_; }
  [[nodiscard]] std::uint64_t newest_recording() const {
    return newest_open_.load(std::memory_order_acquire);
  }
  void set_walker(const FrameWalker* walker);
  void set_native_walker(NativeWalker* walker);
  void hold(bool is_held, bool is_without_stacks);

  [[nodiscard]] Emitter& emitter() { return emitter_; }
  [[nodiscard]] Drain& drain() { return drain_; }
  bool wait_for_allocation(RecordingNumber recording, std::chrono::milliseconds most);
  // Runs a command on the drain thread and waits for it.
  void run_and_wait(const Drain::Command& command);
  std::uint16_t tag_number(const std::string& name);

 private:
  struct Open {
    MemoryKind memory = MemoryKind::cpu;
    bool with_stacks = true;
    bool native_stacks = false;
    std::size_t native_depth = 0;
    std::shared_ptr<FirstAllocation> first_allocation;
  };

  // With mutex_ held, and the drain running.
  Result<RecordingNumber> open(const StartOptions& options);
  // Takes the recording off the list; false if it is not on it. With mutex_ held.
  bool end(RecordingNumber recording);
  void submit_close(RecordingNumber recording, const std::string& reason,
                    const std::shared_ptr<std::promise<Summary>>& done);
  // Switches callbacks on or off, as the open recordings need; with mutex_ held.
  void update_callbacks();
  void note_nodes(bool is_on);

  const ::pid_t process_;
  std::atomic<std::uint64_t> newest_open_{0};  // with the process, so that a fork changes it
  Ring ring_;
  ThreadSlots slots_;
  Emitter emitter_;
  Drain drain_;
  std::timed_mutex mutex_;  // guards what follows
  std::map<RecordingNumber, Open> open_;
  std::map<std::string, std::uint16_t> tags_;
  const FrameWalker* walker_ = nullptr;
  NativeWalker* native_walker_ = nullptr;
  bool notes_nodes_ = false;
  bool is_held_ = false;
  bool is_without_stacks_ = false;
};

}  // namespace gpumemprof::capture
